"""The optimizer without a grid: named parameters, contexts from data, learned hyper-parameters, failures."""

import copy
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import solve_triangular

import drbo
import robos
from drbo import (
    GP,
    MMD,
    RBF,
    DataDriven,
    General,
    LearnedGP,
    Optimizer,
    Product,
    Setting,
    Simulator,
)
from drbo.knowledge.history import Asked, Told
from drbo.rounds.radius_rules import RadiusRule
from exact import exact, fitted
from heating import BOX, FIXED, HISTORY, SETTINGS, ask, heating, make, run, tell


def test_the_snippet_of_the_issue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    history = HISTORY
    opt = drbo.Optimizer(
        actions=drbo.Box(setpoint=(18.0, 24.0), gain=drbo.Log(1e-3, 1.0), stages=drbo.Integer(1, 4),
                         mode=drbo.Categorical("eco", "boost")),
        contexts=drbo.Samples(history[["outdoor", "load"]]),      # a DataFrame or an array, weights optional
        setting=drbo.Simulator(radius=drbo.radius.Calibrated(quantile=0.9), pick="uncertain"),
    )  # fmt: skip
    for _ in range(4):
        s = opt.ask()  # s.action == {"setpoint": 21.3, ...}, s.context == {"outdoor": -4.0, "load": 0.7}
        outcome = heating(s.action, s.context)
        opt.tell(s, outcome)
    opt.save("heating.json")
    opt = drbo.Optimizer.load("heating.json")
    print(opt.recommend_iterate())  # readable: what to deploy, its bound, under which conditions it would be worst
    printed = capsys.readouterr().out
    assert "deploy setpoint = " in printed
    assert "extrapolated: " in printed  # four evaluations in six dimensions
    assert "a guess: at least" in printed
    assert "outdoor = " in printed
    assert s.action.keys() == BOX.parameters.keys()
    assert s.context.keys() == {"outdoor", "load"}


@pytest.mark.parametrize(
    "setting",
    [*SETTINGS[1:3], *(pytest.param(setting, marks=pytest.mark.slow) for setting in (SETTINGS[0], *SETTINGS[3:]))],
    ids=repr,
)
def test_every_setting_finds_good_actions(setting: Setting) -> None:
    opt = make(setting, surrogate=LearnedGP())
    run(opt, 30)
    for r in (opt.recommend_iterate(), opt.recommend()):
        BOX.encode("action", r.action)  # legal
        truth = np.mean([heating(r.action, row) for row in HISTORY.to_dict("records")])
        assert truth > -1.0  # a random action is at -8 on average
        assert r.weights.sum() == pytest.approx(1.0)
        assert len(r.contexts) == len(r.weights)


def told_facts(opt: Optimizer) -> list[Told]:
    return [fact for fact in opt.history if isinstance(fact, Told)]


def test_the_model_learns_from_the_true_context() -> None:
    """Contexts observed later need not be samples, and are neither snapped nor clamped."""
    opt = make(General())
    s = ask(opt)
    opt.tell(s, 1.0, context={"outdoor": 30.0, "load": 0.123})
    assert opt.results[0].context == pytest.approx({"outdoor": 30.0, "load": 0.123})
    assert told_facts(opt)[0].contexts[0].coordinates[0] > 1.0


class Counting(RadiusRule):
    """A constant radius, from a rule that notes how many contexts it was shown."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def radius(self, history: Any, ambiguity: drbo.AmbiguitySet, n_contexts: int) -> float:  # type: ignore[override]
        del ambiguity, n_contexts
        self.shown.append(len(history))
        return 0.2


def test_data_driven_samples_grow_with_what_is_seen() -> None:
    rule = Counting()
    opt = make(DataDriven(radius=rule))
    run(opt, 5)
    s = ask(opt)
    assert rule.shown[-1] == 85
    np.testing.assert_allclose(s.reference.sum(), 1.0)


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_several_evaluations_at_once(setting: Setting) -> None:
    opt = make(setting)
    run(opt, 4)
    asked = [ask(opt) for _ in range(5)]
    points = [
        np.concatenate([p.coordinates for p in (s.action_point, s.context_point) if p is not None]) for s in asked
    ]
    for i in range(5):
        for j in range(i):
            assert np.abs(points[i] - points[j]).max() > 1e-6
    for number in (3, 0, 4):
        tell(opt, asked[number], number)
    opt.cancel(asked[1])
    assert [s.number for s in opt.pending] == [asked[2].number]


def test_results_from_before() -> None:
    opt = make(Simulator(radius=0.2, pick="uncertain"))
    action, context = {"setpoint": 20.0, "gain": 0.01, "stages": 2, "mode": "eco"}, {"outdoor": 3.0, "load": 0.4}
    opt.tell(action, heating(action, context), context=context)
    assert exact(opt.posterior).n_observations == 1
    with pytest.raises(TypeError, match="tell needs the observed context"):
        opt.tell(action, 1.0)
    with pytest.raises(ValueError, match=r"suggestion\['setpoint'\] must be from"):
        opt.tell({**action, "setpoint": 99.0}, 1.0, context=context)
    grid = Optimizer(robos.X, robos.C, ambiguity=MMD(robos.C), setting=General(), surrogate=FIXED)
    grid.tell(2.5, 0.9, context=robos.C[3])
    with pytest.raises(ValueError, match="suggestion must be one of the actions"):
        grid.tell(2.6, 0.9, context=robos.C[3])
    assert exact(grid.posterior).n_observations == 1


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_failed_evaluations_are_remembered_and_not_repeated(setting: Setting) -> None:
    opt = make(setting)
    run(opt, 3)
    somewhere = np.full((1, BOX.dimension), 0.5), np.full((1, 2), 0.5)
    mean, _ = opt.posterior.predict(*somewhere)
    failed = []
    for _ in range(3):
        s = ask(opt)
        opt.tell(s, failed=True)
        failed.append(s)
    np.testing.assert_allclose(opt.posterior.predict(*somewhere)[0], mean, atol=1e-9)
    s = ask(opt)
    for old in failed:
        same_context = s.context_point is None or (
            old.context_point is not None and np.allclose(s.context_point.coordinates, old.context_point.coordinates)
        )
        apart = np.abs(s.action_point.coordinates - old.action_point.coordinates).max()
        assert not (same_context and apart < 1e-6)
    assert opt.n_told == len(opt.results) == 6
    assert [result.failed for result in opt.results] == [False] * 3 + [True] * 3
    with pytest.raises(TypeError, match="tell needs an outcome, or failed=True for"):
        opt.tell(s)
    with pytest.raises(TypeError, match="failed=True must not be given with an outcome"):
        opt.tell(s, 1.0, failed=True)


def test_minimising_is_maximising_the_negative() -> None:
    up, down = (
        make(Simulator(radius=0.2, pick="uncertain")),
        make(Simulator(radius=0.2, pick="uncertain"), maximize=False),
    )
    for _ in range(6):
        a, b = up.ask(), down.ask()
        assert a.same_as(b)
        assert a.score == pytest.approx(-b.score)
        y = heating(a.action, a.context)
        up.tell(a, y)
        down.tell(b, -y)
    assert up.recommend_iterate().value == pytest.approx(-down.recommend_iterate().value)
    assert "at most" in str(down.recommend_iterate())


def test_learned_models_on_a_grid() -> None:
    problem = drbo.problems.benchmark_1(25)
    setting = Simulator(problem.reference, problem.radius, pick="uncertain")
    opt = Optimizer(problem.actions * 10, problem.contexts * 10, ambiguity=problem.ambiguity, setting=setting)
    rng = np.random.default_rng(0)
    for _ in range(80):
        s = opt.ask()
        opt.tell(s, 100 + 7 * float(problem.values[s.action_index, s.context_index]) + 0.1 * rng.normal())
    r = opt.recommend()
    assert problem.robust_values[r.action_index] > problem.robust_optimum.value - 0.05
    assert 100 < r.value < 107
    fits = [fit for fact in opt.history if isinstance(fact, Asked) for fit in fact.fits.values()]
    assert fitted(fits[-1]).offset == pytest.approx(100, abs=7)


def test_before_the_first_outcome_nothing_is_promised() -> None:
    opt = make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    s = opt.ask()
    assert opt.recommend_iterate().value == -math.inf
    opt.tell(s, -1000.0)
    assert -10_000.0 < opt.recommend_iterate().value < -1000.0  # at once; one outcome shows its size, and no spread


def test_a_certificate_says_what_it_rests_on() -> None:
    for beta, words in (
        (2.0, "an estimate (2 standard deviations)"),
        (drbo.TheoreticalBeta(1.0, 0.1), "with probability 0.9"),
    ):
        opt = make(Simulator(radius=0.2, pick="uncertain"), beta=beta)
        run(opt, 2)
        text = str(opt.recommend_iterate())
        assert words in text
        assert [line.split()[0] for line in text.splitlines() if "  reference  " in line] == ["outdoor", "load"]


def test_a_certificate_does_not_outlive_its_model() -> None:
    """Three flat results make a learned model sure of itself; the fourth must take its certificate back."""
    opt = make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    for _ in range(4):
        opt.tell(opt.ask(), 5.0)
    opt.ask()
    sure = opt.recommend_iterate().value
    assert sure > 4.0
    for s in (*opt.pending, opt.ask(), opt.ask()):
        opt.tell(s, -50.0 * (1 + s.number))
    opt.ask()
    assert opt.recommend_iterate().value < sure - 1.0


def test_a_failure_in_an_unknown_context_is_not_counted_as_a_context() -> None:
    opt = Optimizer(robos.X, robos.C, ambiguity=MMD(robos.C), setting=DataDriven(radius=0.2), surrogate=FIXED)
    opt.tell(opt.ask(), 1.0, context_index=7)
    opt.tell(opt.ask(), failed=True)
    opt.tell(opt.ask(), failed=True, context_index=9)
    np.testing.assert_array_equal(np.flatnonzero(opt.ask().reference), [7, 9])


def test_bad_construction() -> None:
    for arguments, message in (
        (
            {"contexts": drbo.Samples(np.zeros((3, 2))), "ambiguity": lambda _: 3},
            "ambiguity must be an AmbiguitySet such as",
        ),
        (
            {
                "contexts": drbo.Samples(np.zeros((3, 2))),
                "setting": Simulator(np.full(3, 1 / 3), 0.1, pick="uncertain"),
            },
            "samples are the reference",
        ),
        ({"surrogate": GP(Product(RBF((0.1, 0.2)), RBF(0.1)), 0.1)}, "lengthscale has 2 entries"),
        ({"contexts": BOX, "ambiguity": MMD(np.zeros((3, 5)))}, "ambiguity must not have contexts of its own"),
    ):
        good = {
            "actions": BOX,
            "contexts": drbo.Samples(HISTORY),
            "setting": Simulator(radius=0.1, pick="uncertain"),
            "surrogate": FIXED,
        }
        with pytest.raises((TypeError, ValueError), match=message):
            Optimizer(**{**good, **arguments})  # type: ignore[arg-type]


def test_copies_are_independent() -> None:
    opt = make(Simulator(radius=0.2, pick="uncertain"))
    run(opt, 2)
    twin = copy.deepcopy(opt)
    a, b = opt.ask(), twin.ask()
    assert a.same_as(b)
    opt.tell(a, 1.0)
    assert len(twin.pending) == 1


def test_a_row_of_a_table_goes_by_its_labels() -> None:
    opt = make(DataDriven(radius=0.2))
    action = {"setpoint": 20.0, "gain": 0.1, "stages": 2, "mode": "eco"}
    row = HISTORY.iloc[3]
    for given in (row, row[["load", "outdoor"]], row.to_dict()):
        opt.tell(pd.Series(action)[["mode", "gain", "stages", "setpoint"]], 1.0, context=given)
    first, *others = told_facts(opt)
    for other in others:
        assert other.contexts[0].same_as(first.contexts[0])
        assert other.action.same_as(BOX.encode("action", action))


@pytest.mark.parametrize("actions", [BOX, np.linspace(0.0, 1.0, 9)], ids=["box", "grid"])
def test_a_failed_action_is_not_recommended(actions: Any) -> None:
    """S10: neither as the best of all, nor as an iterate, unless it has an outcome."""
    opt = Optimizer(
        actions, drbo.Samples(HISTORY, support=4), setting=Simulator(radius=0.2, pick="uncertain"), surrogate=FIXED
    )
    failed = opt.ask()
    opt.tell(failed, failed=True)
    with pytest.raises(RuntimeError, match="has not failed"):
        opt.recommend_iterate()
    assert not opt.recommend().action_point.same_as(failed.action_point)
    opt.tell(opt.ask(), 1.0)
    for _ in range(4):  # whatever is best by an untried action fails, too
        best = opt.under(radius=0.0).recommend()
        worked = [result.action for result in opt.results if not result.failed]
        opt.tell(best.action, failed=True, context=HISTORY.iloc[0].to_dict())
        now = opt.under(radius=0.0).recommend()
        tried = any(np.array_equal(best.action, one) if actions is not BOX else best.action == one for one in worked)
        assert tried or not now.action_point.same_as(best.action_point)


def test_every_action_of_a_grid_may_fail() -> None:
    opt = Optimizer([0.0, 1.0], [0.0, 1.0], setting=Simulator([0.5, 0.5], 0.2, pick="uncertain"), surrogate=FIXED)
    opt.tell(0.0, failed=True, context_index=0)
    assert opt.recommend().action == 1.0
    opt.tell(1.0, failed=True, context_index=0)
    with pytest.raises(RuntimeError, match="every action has failed"):
        opt.recommend()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: make(Simulator(radius=0.2, pick="uncertain"), maximize="min"),
            "maximize must be True or False, got 'min'",
        ),
        (
            lambda: Optimizer(BOX, drbo.Samples(HISTORY), setting=DataDriven),  # type: ignore[arg-type]
            r"setting must be General\(\), DataDriven",
        ),
        (
            lambda: Simulator(drbo.Samples(HISTORY), 0.1, pick="uncertain"),  # type: ignore[arg-type]
            "reference must be weights, one per context; samples are given",
        ),
        (lambda: drbo.Box(a=(3.0, 1.0)), r"a must be \(low, high\) with low less than high"),
        (lambda: drbo.Categorical(["x", "y"]), r"choices must be given one by one, Categorical\('a', 'b'\)"),
        (lambda: BOX.encode("action", {"mode": "eco"}), "action lacks setpoint, gain, stages; its parameters"),
        (lambda: drbo.Samples({"a": [1.0, 2.0], "b": [3.0]}), "data must have columns of equal length"),
        (lambda: drbo.Samples({"a": [1.0], "feed": ["x", "y"]}), "data must have columns of equal length"),
        (
            lambda: drbo.Samples({"a": ["1", "2", "<1"]}, within=drbo.Box(a=(0.0, 3.0))),
            r"data\[0\]\['a'\] must be a number, got '1' \(and 2 more of 3 rows\)",
        ),
    ],
)
def test_errors_name_the_argument_and_what_was_expected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_what_is_printed_is_short() -> None:
    opt = make(Simulator(radius=0.2, pick="uncertain"))
    s = opt.ask()
    assert str(s).startswith("suggestion 0: setpoint = ")
    assert len(str(s)) < 200
    assert "0 told, 1 pending" in repr(opt)
    endless = Optimizer(BOX, drbo.Samples(HISTORY), setting=DataDriven(radius=math.inf), surrogate=FIXED)
    endless.ask()
    words = "as the radius is infinite: every distribution on the contexts,"
    assert words in " ".join(str(endless.recommend_iterate()).split())


@pytest.mark.parametrize("surrogate", [FIXED, LearnedGP()], ids=["fixed", "learned"])
def test_the_first_ask_solves_nothing_with_an_empty_matrix(surrogate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F4: scipy 1.13 refuses a triangular solve of a 0 x 0 matrix, which is all that there is before an outcome."""

    def strict(matrix: Any, *args: Any, **more: Any) -> Any:
        assert np.size(matrix) > 0
        return solve_triangular(matrix, *args, **more)

    for name in [name for name in sys.modules if name.startswith("drbo.")]:
        if hasattr(sys.modules[name], "solve_triangular"):
            monkeypatch.setattr(f"{name}.solve_triangular", strict)
    opt = make(Simulator(radius=0.2, pick="uncertain"), surrogate=surrogate)
    opt.ask(2)
    opt.recommend()
