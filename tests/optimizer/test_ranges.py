"""The optimizer where contexts are a range: nature may choose any point of a box of named parameters."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import GP, MMD, RBF, DataDriven, General, Matern, Optimizer, Product, Setting, Simulator, Suggestion

ACTIONS = drbo.Box(setpoint=(18.0, 24.0), stages=drbo.Integer(1, 4))
CONTEXTS = drbo.Box(outdoor=(-10.0, 30.0), load=drbo.Log(0.1, 10.0), season=drbo.Categorical("winter", "summer"))
GRID = np.linspace(0.0, 1.0, 21)
FIXED = GP(Product(Matern(0.7), RBF(0.5)), 0.1)
RNG = np.random.default_rng(0)
HISTORY = pd.DataFrame(
    {
        "season": ["winter", "summer"] * 15,
        "outdoor": np.clip(RNG.normal(10.0, 6.0, 30), -10.0, 30.0),
        "load": 10.0 ** RNG.uniform(-0.5, 0.5, 30),
    }
)
SAMPLES = drbo.Samples(HISTORY, within=CONTEXTS, support=32)
SETTINGS: list[Setting] = [
    General(),
    DataDriven(radius=drbo.radius.Decaying(0.5)),
    Simulator(radius=0.2),
    Simulator(radius=0.2, pick="informative"),
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=repr)


def heating(action: Any, context: dict[str, Any]) -> float:
    x = action if isinstance(action, dict) else {"setpoint": 18.0 + 6.0 * float(action[0]), "stages": 2}
    comfort = (x["setpoint"] - 21.0 - 0.05 * context["outdoor"]) ** 2
    control = 0.3 * (x["stages"] - 2.0 - math.log10(context["load"])) ** 2
    return float(-comfort - control - 0.5 * (context["season"] == "winter"))


def nature(number: int) -> dict[str, Any]:
    now: dict[str, Any] = HISTORY.iloc[number % 30].to_dict()
    return {**now, "load": 0.9 * now["load"]}  # not one of the samples


def forecast(number: int) -> drbo.Samples:
    return drbo.Samples([[10.0 + number, 1.0, "winter"], [12.0, 0.7, "summer"]], within=CONTEXTS)


def ask(opt: Optimizer, number: int) -> Suggestion:
    return opt.ask(reference=forecast(number), radius=0.2) if isinstance(opt.setting, General) else opt.ask()


def tell(opt: Optimizer, s: Suggestion, number: int) -> None:
    now = nature(number) if s.context is None else s.context
    opt.tell(s, heating(s.action, now), context=None if opt.setting.picks_context else now)


def run(opt: Optimizer, rounds: int, first: int = 0) -> list[Suggestion]:
    suggestions = []
    for number in range(first, first + rounds):
        suggestions.append(ask(opt, number))
        tell(opt, suggestions[-1], number)
    return suggestions


@every_setting
@pytest.mark.parametrize("actions", [ACTIONS, GRID], ids=["box", "grid"])
@pytest.mark.parametrize("contexts", [CONTEXTS, SAMPLES], ids=["box", "samples"])
def test_every_setting_runs(setting: Setting, actions: Any, contexts: Any) -> None:
    opt = Optimizer(actions, contexts, setting=setting, surrogate=FIXED)
    suggestions = run(opt, 6)
    for s in suggestions:
        assert s.context_index is None
        if setting.picks_context:
            assert CONTEXTS.decode(s.context_point) == s.context  # type: ignore[arg-type]
            assert CONTEXTS.encode("context", s.context) == pytest.approx(s.context_point, abs=1e-9)
    for r in (opt.recommend(), opt.recommend_final()):
        assert len(r.weights) == len(r.reference) == len(r.contexts)
        assert r.weights.sum() == pytest.approx(1.0)
        assert r.gap >= 0.0
        assert r.contexts[int(np.argmax(r.weights))].keys() == CONTEXTS.parameters.keys()


@pytest.mark.parametrize("radius", [0.1, 0.5, math.inf])
def test_the_certificate_holds_for_any_distribution_on_the_box(radius: float) -> None:
    """Against the same set with a thousand more contexts, and against what the mean says where it is worst."""
    opt = Optimizer(ACTIONS, SAMPLES, setting=Simulator(radius=radius), surrogate=FIXED)
    run(opt, 8)
    r = opt.recommend_final()
    many = np.concatenate([opt._conditions.atoms.points, CONTEXTS.sample(1000, 5)])
    mean, variance = opt.posterior.predict(np.tile(r.action_point, (len(many), 1)), many)
    p = np.append(opt._conditions.atoms.reference, np.zeros(1000))
    brute = MMD(many, RBF(0.2 * math.sqrt(4))).worst_case(mean - 2.0 * np.sqrt(variance), p, radius)
    span = np.ptp(mean - 2.0 * np.sqrt(variance))
    assert r.value <= brute.expectation + 1e-9
    assert r.value + r.gap >= brute.expectation - 1e-9
    assert r.gap <= 0.1 * span


@pytest.mark.parametrize("setting", [DataDriven(), DataDriven(radius=0.3)], ids=repr)
def test_from_nothing_the_contexts_seen_become_the_reference(setting: Setting) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=FIXED)
    first = opt.ask()
    if setting.radius.radius(np.empty(0, dtype=np.intp), opt.ambiguity, 1) == math.inf:  # type: ignore[attr-defined]
        assert first.radius == math.inf
    opt.tell(first, 0.3, context=nature(0))
    opt.tell(opt.ask(), 0.1, context=nature(1))
    second = opt.ask()
    weight = dict(zip(map(tuple, opt._conditions.atoms.points), opt._conditions.atoms.reference, strict=True))
    for number in (0, 1):
        assert weight[tuple(CONTEXTS.encode("context", nature(number)))] == 0.5
    assert second.reference.sum() == pytest.approx(1.0)


def test_each_round_of_the_general_setting_has_its_own_samples() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    s = ask(opt, 7)
    points = opt._conditions.atoms.points[opt._conditions.atoms.reference > 0.0]
    assert sorted(CONTEXTS.decode(p)["outdoor"] for p in points) == pytest.approx([12.0, 17.0])
    assert s.radius == 0.2
    last = opt.recommend_final()
    assert last.radius == 0.2
    assert opt.recommend_final(reference=forecast(20), radius=0.0).value != last.value


def test_at_radius_zero_it_is_the_expectation_of_the_samples() -> None:
    opt = Optimizer(ACTIONS, SAMPLES, setting=Simulator(radius=0.0), surrogate=FIXED)
    run(opt, 3)
    r = opt.recommend_final()
    atoms = opt._conditions.atoms
    mean, variance = opt.posterior.predict(np.tile(r.action_point, (len(atoms.points), 1)), atoms.points)
    assert r.value == pytest.approx(float(atoms.reference @ (mean - 2.0 * np.sqrt(variance))))
    assert r.gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "family",
    [
        drbo.Wasserstein,
        drbo.Neighbourhood,
        drbo.TotalVariation(),
        drbo.KL(),
        partial(MMD, kernel=Matern(0.4)),
    ],
    ids=["Wasserstein", "Neighbourhood", "TV", "KL", "rough MMD"],
)
def test_every_family_of_sets_saves_and_goes_on(family: Any, tmp_path: Path) -> None:
    opt = Optimizer(ACTIONS, SAMPLES, ambiguity=family, setting=Simulator(radius=0.1), surrogate=FIXED)
    run(opt, 2)
    opt.save(tmp_path / "state.json")
    loaded = Optimizer.load(tmp_path / "state.json")
    for a, b in zip(run(opt, 2), run(loaded, 2), strict=True):
        assert a.action == b.action
        assert a.score == b.score
    assert opt.recommend_final().value == loaded.recommend_final().value


@every_setting
def test_a_loaded_optimizer_goes_on_exactly(setting: Setting, tmp_path: Path) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, seed=3)
    run(opt, 5)
    held = ask(opt, 5)
    opt.save(tmp_path / "state.json")
    loaded = Optimizer.load(tmp_path / "state.json")
    for some in (opt, loaded):
        tell(some, held, 5)
    for a, b in zip(run(opt, 4, 6), run(loaded, 4, 6), strict=True):
        assert (a.action, a.context, a.score) == (b.action, b.context, b.score)
    assert str(opt.recommend()) == str(loaded.recommend())
    assert str(opt.recommend_final()) == str(loaded.recommend_final())


@every_setting
def test_several_at_once_differ(setting: Setting) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=FIXED)
    run(opt, 3)
    several = [ask(opt, 3) for _ in range(3)]
    assert len({str((s.action, s.context)) for s in several}) == 3
    for s in reversed(several):
        tell(opt, s, 4)
    assert opt.n_told == 6


def test_the_model_learns_from_the_true_context() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), surrogate=FIXED)
    odd = {"outdoor": 1.2345678, "load": 0.98765, "season": "summer"}
    opt.tell({"setpoint": 20.0, "stages": 2}, 1.0, context=odd)
    np.testing.assert_array_equal(opt._model.observations[0].context, CONTEXTS.encode("context", odd))


def test_failures_and_minimising() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), maximize=False)
    for number in range(5):
        s = opt.ask()
        if number == 2:
            opt.tell(s, failed=True)
        else:
            opt.tell(s, -heating(s.action, nature(number)), context=nature(number))
    r = opt.recommend_final()
    assert r.gap >= 0.0
    assert "at most" in str(r)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"outdoor": 50.0, "load": 1.0, "season": "winter"}, r"context\['outdoor'\] must be from -10.0 to 30.0"),
        ({"outdoor": 5.0, "load": 1.0, "season": "autumn"}, r"context\['season'\] must be one of"),
        ({"outdoor": 5.0, "load": 1.0}, "context lacks season"),
        ([5.0, 1.0], "context must give outdoor, load, season"),
        (3.0, "context must give outdoor, load, season"),
    ],
)
def test_contexts_that_are_none(context: Any, message: str) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), surrogate=FIXED)
    s = opt.ask()
    with pytest.raises(ValueError, match=message):
        opt.tell(s, 1.0, context=context)
    opt.tell(s, 1.0, context=[5.0, 1.0, "winter"])


def test_references_that_are_none() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    with pytest.raises(TypeError, match="reference is missing or empty: give Samples"):
        opt.ask(radius=0.1)
    with pytest.raises(TypeError, match="reference must be Samples"):
        opt.ask(reference=np.full(128, 1 / 128), radius=0.1)
    with pytest.raises(ValueError, match="reference must give outdoor, load, season"):
        opt.ask(reference=drbo.Samples([1.0, 2.0]), radius=0.1)
    with pytest.raises(TypeError, match="reference must not be given"):
        Optimizer(ACTIONS, CONTEXTS, setting=Simulator(radius=0.1), surrogate=FIXED).ask(reference=forecast(0))
    finite = Optimizer(GRID, GRID, ambiguity=MMD(GRID), setting=General(), surrogate=FIXED)
    with pytest.raises(TypeError, match="reference must be weights"):
        finite.ask(reference=forecast(0), radius=0.1)


def test_a_reference_that_was_refused_is_refused_again() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    wrong = drbo.Samples([1.0, 2.0])
    for _ in range(2):
        with pytest.raises(ValueError, match="reference must give outdoor, load, season"):
            opt.ask(reference=wrong, radius=0.1)
    assert opt.recommend_final().radius == 0.2


def test_another_set_in_between_does_not_change_the_last_one() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    opt.recommend_final(reference=forecast(20), radius=0.5)
    last = opt.recommend_final()
    sampled = [c["outdoor"] for c, weight in zip(last.contexts, last.reference, strict=True) if weight > 0.0]
    assert sorted(sampled) == pytest.approx([10.0, 12.0])


def test_an_interrupt_while_the_model_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), surrogate=FIXED)
    run(opt, 4)
    observe, left = drbo.models.gp.GridPosterior.observe, [2]

    def interrupted(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        observe(*arguments)

    monkeypatch.setattr(drbo.models.gp.GridPosterior, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opt.ask()
    monkeypatch.undo()
    opt.recommend()
    assert opt.posterior.n_observations == opt.n_told == 4


@every_setting
def test_an_interrupt_while_the_adversary_searches(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=FIXED)
    run(opt, 2)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drbo.refinement, "_downhill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(opt, 2)
    monkeypatch.undo()
    assert opt.pending == ()
    run(opt, 2, 2)
    assert opt.posterior.n_observations == opt.n_told == 4


def test_only_an_mmd_compresses() -> None:
    """In any other set nothing bounds what it costs: contexts seen are all kept, too many samples are refused."""
    line = drbo.Box(load=(0.0, 1.0))
    few = drbo.Samples([0.5], within=line, atoms=3)
    opt = Optimizer(GRID, few, ambiguity=drbo.TotalVariation(), setting=DataDriven(radius=0.1), surrogate=FIXED)
    for number in range(5):
        opt.tell(opt.ask(), 0.1 * number, context=[0.1 * number])
    assert opt.ask().radius == 0.1
    assert np.count_nonzero(opt._conditions.atoms.reference) == 6
    general = Optimizer(GRID, line, ambiguity=drbo.TotalVariation(), setting=General(), surrogate=FIXED)
    many = np.linspace(0.0, 1.0, 301)
    with pytest.raises(ValueError, match="ambiguity must be an MMD for compressed samples"):
        general.ask(reference=drbo.Samples(many, within=line), radius=0.1)
    assert general.ask(reference=drbo.Samples(many, within=line, atoms=301), radius=0.1).radius == 0.1


def test_many_whole_numbers_are_not_listed_to_see_that_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(*_: Any) -> list[float]:
        raise AssertionError("no value needs to be encoded")

    monkeypatch.setattr(drbo.Integer, "encode", encode)
    assert not drbo.Box(users=drbo.Integer(0, 10_000)).continuous.any()


def test_a_certificate_made_anew_is_for_its_own_set() -> None:
    """General setting: after a refit the best iterate is certified for the samples and the radius of its own round."""
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General())
    sets: dict[float, list[float]] = {}
    for number in range(8):
        s = opt.ask(reference=forecast(number), radius=0.02 if number % 2 else 0.3)
        sets[s.radius] = [*sets.get(s.radius, []), 10.0 + number]
        tell(opt, s, number)
        r = opt.recommend()
        sampled = [c["outdoor"] for c, weight in zip(r.contexts, r.reference, strict=True) if weight > 0.0]
        own = [outdoor for outdoor in sampled if outdoor != pytest.approx(12.0)] or [12.0]
        assert any(own[0] == pytest.approx(outdoor) for outdoor in sets[r.radius])
