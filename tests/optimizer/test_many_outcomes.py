"""Above the limit of an exact posterior: the same questions have answers, and replay keeps its bits."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
import drbo.models.sparse as module
from bits import bits
from drbo import _messages
from drbo.knowledge import belief
from drbo.knowledge.state import observations
from drbo.models import SupportsManyOutcomes, supports
from drbo.models.sparse import SparsePosterior
from drbo.report import contents
from drbo.report.page import page
from interrupts import interrupted, lines

N = 520


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything smaller by a factor of ten, so that a few hundred outcomes are many."""
    for name, value in (("INDUCING", 40), ("POOL", 160), ("NEAREST", 120), ("NEIGHBOURS", 40)):
        monkeypatch.setattr(module, name, value)


def log(count: int = N, seed: int = 0, labels: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, c = rng.random(count), rng.random(count)
    found = pd.DataFrame({"x": x, "c": c})
    y = np.sin(5 * x) - (x - c) ** 2 + 0.05 * rng.normal(size=count)
    if labels:
        found["kind"] = rng.choice(["a", "b"], count)
        y += 0.3 * (found["kind"] == "b")
    return found.assign(y=y, peak=x + c)


def _past() -> Any:
    return np.random.default_rng(1).random(12)


def told(
    exact_up_to: int = 100, *, frame: pd.DataFrame | None = None, actions: Any = None, contexts: Any = None, **more: Any
) -> drbo.Optimizer:
    opt = drbo.Optimizer(
        actions or drbo.Box({"x": (0.0, 1.0)}),
        contexts or drbo.Samples({"c": _past()}),
        **{"setting": drbo.Simulator(radius=0.1), "surrogate": drbo.LearnedGP(exact_up_to=exact_up_to), **more},
    )
    opt.append(log() if frame is None else frame, "y")
    return opt


def test_the_recommendation_says_what_it_rests_on_and_is_close_to_the_exact_one() -> None:
    many, exact = told().recommend(), told(10_000).recommend()
    posterior = told().posterior
    assert isinstance(posterior, SparsePosterior)
    assert posterior.n_inducing <= 40
    assert many.approximation == (
        f"searched with {posterior.n_inducing} inducing points; "
        "the bound rests on the 120 outcomes nearest to the action"
    )
    assert " ".join(str(many).split()).count(many.approximation) == 1
    assert exact.approximation is None
    assert many.action["x"] == pytest.approx(exact.action["x"], abs=0.1)
    assert many.trust.guess == pytest.approx(exact.trust.guess, abs=0.05)
    assert not many.claim.proven


def test_replay_and_files_keep_the_bits(tmp_path: Path) -> None:
    live = told()
    for _ in range(3):
        s = live.ask()
        live.tell(s, math.sin(5 * s.action["x"]))
    live.tell({"x": 0.5}, 0.1, context={"c": 0.5})
    live.save(tmp_path / "run.jsonl")
    loaded = drbo.Optimizer.load(tmp_path / "run.jsonl")
    assert isinstance(loaded.posterior, SparsePosterior)
    assert loaded.recommend().value == live.recommend().value
    ours, theirs = live.ask(), loaded.ask()
    assert (ours.action, ours.context, ours.score) == (theirs.action, theirs.context, theirs.score)
    assert dict(loaded.configuration.surrogate.__dict__)["exact_up_to"] == 100


CALLS: dict[str, Callable[[drbo.Optimizer], Any]] = {
    "ask": lambda opt: opt.ask(),
    "recommend": lambda opt: opt.recommend(),
    "report": lambda opt: page(opt, "run"),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_after_an_interrupt_at_any_moment_the_bits_are_the_same(name: str) -> None:
    start, rng = told(frame=log(300)), np.random.default_rng(len(name))
    whole = copy.deepcopy(start)
    count = lines(lambda: CALLS[name](copy.deepcopy(start))).count
    expected = whole.recommend().value, bits(whole.ask())
    for moment in rng.integers(1, count, 2).tolist():
        opt = copy.deepcopy(start)
        assert interrupted(lambda opt=opt: CALLS[name](opt), moment)  # type: ignore[misc]  # bound
        assert bits(opt.history) == bits(start.history), moment
        assert (opt.recommend().value, bits(opt.ask())) == expected, moment


def test_a_long_fit_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_messages, "_PATIENCE", 0.0)
    opt = told(frame=log(300))
    assert not capsys.readouterr().err
    opt.ask()
    said = capsys.readouterr().err
    assert "drbo: learning hyper-parameters, climbs, 0 of 3" in said
    assert "drbo: reading the outcomes, blocks, 0 of" in said


def test_questions_of_one_action_rest_on_the_nearest_outcomes() -> None:
    opt = told(baseline={"x": 0.2})
    question, exact = opt.under(), told(10_000, baseline={"x": 0.2}).under()
    assert question.bound({"x": 0.3}).trust.guess <= exact.bound({"x": 0.3}).trust.guess + 0.02
    assert question.compare({"x": 0.3}).worst == pytest.approx(exact.compare({"x": 0.3}).worst, abs=0.1)
    assert len(question.profile([0.0, 0.1]).bound) == 2
    assert question.probability({"x": 0.3}, above=0.0).lower > 0.5
    assert not question.regret_bound().exhaustive
    assert len(question.narrowing({"x": 0.3}, steps=3).bound) == 3
    found = opt.predict([{"x": 0.3}, {"x": 0.7}], [{"c": 0.4}, {"c": 0.5}])
    assert (found.lower < found.mean).all()
    rng = np.random.default_rng(5)
    x, c = rng.random((2, 200, 1))
    at_once, own = opt.posterior.predict(x, c), opt.posterior
    one_by_one = [own.predict(x[i : i + 1], c[i : i + 1]) for i in rng.permutation(200).tolist()]  # cells come and go
    assert sorted(np.ravel(one_by_one).tolist()) == pytest.approx(sorted(np.ravel(at_once).tolist()), abs=1e-9)
    left = opt.leave_one_out()
    assert len(left.outcome) == left.told == N
    assert left.inside.mean() > 0.95


def test_a_sample_of_the_outcomes_is_predicted_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = told()
    every, some = opt.leave_one_out(), opt.leave_one_out(most=60)
    assert 60 <= len(some.outcome) < 120
    for name in ("id", "outcome", "mean", "std"):
        assert (getattr(some, name) == getattr(every, name)[some.rows]).all(), name
    assert f"of {len(some.outcome)} outcomes, a sample of {N}, lie within" in str(some)
    assert len(opt.leave_one_out(most=10_000).outcome) == N
    monkeypatch.setattr(contents, "MOST_POINTS", 60)
    assert f"In the picture, {some}." in page(opt, "run")


def test_bounds_over_time_read_each_result_once_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    read, question = list[Any](), told().under()

    def counted(*given: Any) -> Any:
        read.append(given)
        return observations(*given)

    question.recommend()
    monkeypatch.setattr(belief, "observations", counted)
    question.narrowing({"x": 0.3}, steps=3)
    assert len(read) == N


def _known(action: Any, context: Any) -> float:
    return 0.1 * float(action["x"]) + 0.1 * float(context["c"])


def test_limits_labels_known_parts_failures_and_pending_evaluations() -> None:
    frame = log(labels=True)
    opt = drbo.Optimizer.from_frame(
        frame, actions=["x", "kind"], contexts="c", outcome="y", radius=0.1,
        limits={"peak": drbo.AtMost(1.4)}, known=drbo.Known(_known, lipschitz=0.1),
        surrogate=drbo.LearnedGP(exact_up_to=100),
    )  # fmt: skip
    assert supports(opt.posterior, SupportsManyOutcomes)
    r = opt.recommend()
    assert r.limits["peak"].holds
    s = opt.ask()
    opt.tell(s, failed=True)
    opt.ask()
    assert opt.recommend().approximation is not None


def test_repeats_vectors_and_standard_errors() -> None:
    frame = log(40)
    few = pd.concat([frame.assign(y=frame["y"] + 0.01 * k) for k in range(10)], ignore_index=True)
    opt = told(frame=few)
    assert not supports(opt.posterior, SupportsManyOutcomes)
    assert opt.recommend().approximation is None
    opt = told()
    opt.tell({"x": 0.4}, [0.1, 0.2, 0.3], contexts=[{"c": 0.1}, {"c": 0.5}, {"c": 0.9}])
    opt.tell({"x": 0.4}, 0.2, context={"c": 0.3}, stderr=0.1)
    assert math.isfinite(opt.recommend().value)


OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "contexts with a range": lambda: {"contexts": drbo.Samples({"c": _past()}, within=drbo.Box({"c": (0.0, 1.0)}))},
    "compressed samples": lambda: {"contexts": drbo.Samples({"c": np.linspace(0.0, 1.0, 4000)}, atoms=20)},
    "a constraint on actions": lambda: {
        "actions": drbo.Box({"x": (0.0, 1.0), "z": (0.0, 1.0)}, constraints=[drbo.Total("x", "z", at_most=1.0)]),
        "frame": log().assign(z=lambda one: 1.0 - one["x"]),
    },
    "a floor": lambda: {"baseline": {"x": 0.4}},
    "Thompson": lambda: {"policy": drbo.Thompson(drbo.Uncertain())},
    "value of information": lambda: {"policy": drbo.ValueOfInformation()},
    "shared shocks": lambda: {"surrogate": drbo.LearnedGP(exact_up_to=100, noise_correlation=0.5)},
    "data-driven": lambda: {"setting": drbo.DataDriven(radius=0.1)},
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_what_an_exact_posterior_can_do_is_possible(name: str, tmp_path: Path) -> None:
    opt = told(**OTHERS[name]())
    assert supports(opt.posterior, SupportsManyOutcomes)
    s = opt.ask()
    if s.context is None:
        opt.tell(s, 0.1, context={"c": 0.5})
    else:
        opt.tell(s, 0.1)
    opt.tell(s.action, [0.1, 0.2], contexts=[{"c": 0.1}, {"c": 0.9}])
    with pytest.raises(TypeError, match="distribution needs a surrogate with fixed hyper-parameters"):
        opt.tell(s.action, 0.1, distribution=drbo.Samples({"c": [0.25, 0.75]}))
    r = opt.recommend()
    assert r.approximation is not None
    assert math.isfinite(opt.bound(s.action).value)
    opt.ask(floor=-5.0 if name == "a floor" else None)
    assert "searched with" in page(opt, "run")
    opt.save(tmp_path / "run.jsonl")
    assert drbo.Optimizer.load(tmp_path / "run.jsonl").recommend().value == opt.recommend().value


def test_a_study_of_optuna() -> None:
    optuna = pytest.importorskip("optuna", reason="pip install 'drbo[optuna]'")
    from drbo.integrations.optuna import RobustSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = RobustSampler(
        drbo.Samples({"c": _past()}, support=0),
        setting=drbo.Simulator(radius=0.1),
        surrogate=drbo.LearnedGP(exact_up_to=100),
    )
    study = optuna.create_study(sampler=sampler, direction="maximize")
    space: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in ("x", "c")}
    days = np.random.default_rng(2).choice(_past(), N)
    for (x, _, y, _), c in zip(log().itertuples(index=False), days.tolist(), strict=True):
        study.add_trial(optuna.trial.create_trial(params={"x": x, "c": c}, distributions=space, value=y))
    trial = study.ask()
    assert 0.0 <= trial.suggest_float("x", 0.0, 1.0) <= 1.0
    assert trial.suggest_float("c", 0.0, 1.0) in _past()
    study.tell(trial, 0.1)
    assert supports(sampler.optimizer(study).posterior, SupportsManyOutcomes)
    assert sampler.recommend(study).approximation is not None


def test_a_grid_and_other_policies() -> None:
    frame = log()
    grid = np.linspace(0.0, 1.0, 9)
    frame["x"] = grid[np.random.default_rng(3).integers(9, size=N)]
    contexts = np.linspace(0.0, 1.0, 6)
    opt = drbo.Optimizer(
        pd.DataFrame({"x": grid}),
        pd.DataFrame({"c": contexts}),
        setting=drbo.Simulator(np.full(6, 1 / 6), radius=0.1),
        ambiguity=drbo.TotalVariation(),
        policy=drbo.Thompson(drbo.Uncertain()),
        surrogate=drbo.LearnedGP(exact_up_to=30),
    )
    frame["c"] = contexts[np.random.default_rng(4).integers(6, size=N)]
    opt.append(frame, "y")
    opt.ask()
    assert opt.recommend().approximation is not None


def test_too_many_points_for_memory_are_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo.models.gp.LARGE", 100)
    monkeypatch.setattr("drbo.models.gp._available", lambda: 1e6)
    opt = told(10_000)
    with pytest.raises(
        MemoryError, match=r"520 outcomes at 520 different points need .* LearnedGP\(exact_up_to=1500\)"
    ):
        opt.recommend()


def test_a_bad_limit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="exact_up_to must be at least 1, got 0"):
        drbo.LearnedGP(exact_up_to=0)
