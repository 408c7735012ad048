"""The verdict on a bound: what counts as extrapolated, as refuted and as checked, and what is named."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo.analysis import Recommendation
from drbo.kernels import RBF, Product
from drbo.knowledge.ahead import DELTA

GRID = np.linspace(0.0, 1.0, 6)
MODEL = drbo.GP(Product(RBF(0.4), RBF(0.4)), 0.1)


def make(radius: float = 0.1, **arguments: Any) -> drbo.Optimizer:
    usual = {
        "ambiguity": drbo.TotalVariation(),
        "setting": drbo.Simulator(np.full(6, 1 / 6), radius),
        "surrogate": MODEL,
    }
    return drbo.Optimizer(GRID, GRID, **{**usual, **arguments})


def smooth(x: float, c: float) -> float:
    return -((x - 0.4) ** 2) - 0.3 * x * c


def everywhere(opt: drbo.Optimizer, sign: float = 1.0) -> drbo.Optimizer:
    """Return the optimizer with the outcomes of every action in the first, third and last context."""
    for x in GRID:
        for c in GRID[[0, 2, 5]]:
            opt.tell([x], sign * smooth(x, c), context=[c])
    return opt


def mass_beyond(r: Recommendation, low: float, high: float) -> float:
    contexts = np.array([np.atleast_1d(c)[0] for c in r.contexts])
    return float(r.weights[(contexts < low - 1e-9) | (contexts > high + 1e-9)].sum())


@pytest.mark.parametrize("last", [2, 3, 5])
def test_mass_outside_what_was_evaluated_is_extrapolated(last: int) -> None:
    opt = make()
    opt.ask()  # a suggestion for the present radius
    for x in GRID:
        for c in GRID[[0, last]]:
            opt.tell([x], smooth(x, c), context=[c])
    r = opt.recommend()
    assert r.trust.outside == pytest.approx(mass_beyond(r, 0.0, GRID[last]))
    assert (r.trust.verdict == "extrapolated") == (last < 5) == (r.trust.outside > 0.02)
    assert r.promise.startswith("a guess: at least" if last < 5 else "estimated: at least")
    if last < 5:
        first, *_, how = r.trust.reasons
        assert first.startswith(f"{r.trust.outside:.0%} of the worst distribution lies in conditions that nobody has")
        assert how == f"to check, evaluate {r.check}"
        assert str(r).startswith("extrapolated: ")
        assert float(np.atleast_1d(r.check.context)[0]) > GRID[last]


def test_conditions_in_which_only_other_actions_were_evaluated_are_extrapolated() -> None:
    """Far from this action all contexts were evaluated; near it, the first one alone."""
    opt = make()
    opt.ask()
    for x in GRID:
        for c in GRID if x >= 0.8 else GRID[:1]:
            opt.tell([x], smooth(x, c), context=[c])
    r = opt.bound([0.4])
    assert r.trust.outside == 0.0
    assert r.trust.untried == pytest.approx(mass_beyond(r, 0.0, 0.0))
    assert r.trust.untried > 0.1
    assert r.trust.verdict == "extrapolated"
    assert r.trust.reasons[0].startswith(
        f"{r.trust.untried:.0%} of the worst distribution lies in conditions in which nobody has evaluated this action"
    )


def test_telling_the_check_where_everything_else_is_known_ends_the_extrapolation() -> None:
    opt = make()
    opt.ask()
    for x in GRID:
        for c in GRID[[0, 4]]:
            opt.tell([x], smooth(x, c), context=[c])
    r = opt.recommend()
    assert r.trust.verdict == "extrapolated"
    np.testing.assert_array_equal(r.check.action, r.action)
    np.testing.assert_array_equal(r.check.context, [1.0])
    opt.tell(r.check.action, smooth(float(r.action[0]), 1.0), context=r.check.context)
    assert opt.recommend().trust.verdict == "checked"
    assert r.trust.verdict == "extrapolated"  # that of its own time


def test_a_radius_beyond_those_of_the_suggestions_is_extrapolated() -> None:
    opt = make(radius=0.0)
    everywhere(opt)
    opt.ask()
    assert opt.recommend().trust.verdict == "checked"
    wide = opt.recommend(radius=0.3)
    assert wide.trust.outside == 0.0
    assert wide.trust.verdict == "extrapolated"
    assert wide.trust.reasons[0] == "suggestions were for a radius of at most 0, and this is 0.3"
    opt.ask(radius=0.3)
    assert opt.recommend(radius=0.3).trust.verdict == "checked"


def test_a_label_that_was_never_evaluated_is_extrapolated() -> None:
    opt = drbo.Optimizer(
        GRID, ["calm", "windy", "storm"], ambiguity=drbo.TotalVariation(), surrogate=MODEL,
        setting=drbo.Simulator([0.4, 0.4, 0.2], 0.2),
    )  # fmt: skip
    opt.ask()
    for x in GRID:
        for label in ("calm", "windy"):
            opt.tell([x], smooth(x, 0.0), context=label)
    r = opt.recommend()
    assert r.trust.outside == pytest.approx(r.weights[list(r.contexts).index("storm")])
    assert r.trust.verdict == "extrapolated"
    assert r.check.context == "storm"
    assert "nobody has evaluated, such as storm" in r.trust.reasons[0]


@pytest.mark.parametrize("maximize", [True, False])
def test_a_cliff_refutes_the_model(maximize: bool) -> None:
    sign = 1.0 if maximize else -1.0
    opt = everywhere(make(maximize=maximize), sign)
    opt.ask()
    before = opt.recommend()
    assert before.trust.verdict == "checked"
    for x, c in ((0.0, 0.2), (0.2, 0.6), (0.4, 0.2), (0.6, 0.8)):
        opt.tell([x], sign * (smooth(x, c) - 3.0), context=[c])
    ahead = opt._known.ahead(opt._known.state)
    assert ahead.evidence >= 1.0 / DELTA
    assert ahead.errors[-4] < -5.0  # worse than predicted, whatever the direction
    r = opt.recommend()
    assert r.trust.verdict == "refuted"
    far = len(ahead.beyond(3.0))
    assert r.trust.reasons[0].startswith(f"{far} of the last 13 outcomes were further than 3 deviations")
    named = ", ".join(str(number) for number in ahead.beyond(5.0)[-3:])
    assert r.trust.reasons[1].startswith(f"correct results {named}, if mistaken, with amend or retract; ")
    assert r.promise.startswith(f"a guess: at {'least' if maximize else 'most'} ")
    assert str(r).startswith("refuted: ")


def test_a_history_that_was_corrected_is_not_refuted() -> None:
    opt = everywhere(make())
    opt.ask()
    for x in GRID[:4]:
        opt.tell([x], smooth(x, 0.2) - 3.0, context=[0.2])
    assert opt.recommend().trust.verdict == "refuted"
    last = opt.results[-1]
    opt.amend(last, smooth(float(last.action[0]), 0.2))
    assert opt.recommend().trust.verdict == "checked"


def test_one_outlier_is_named_and_refutes_nothing() -> None:
    opt = everywhere(make())
    opt.ask()
    opt.tell([0.6], smooth(0.6, 0.4) + 1.0, context=[0.4])
    ahead = opt._known.ahead(opt._known.state)
    assert 5.0 < ahead.errors[-1] < 12.0
    r = opt.recommend()
    assert r.trust.verdict == "checked"
    assert r.trust.reasons[-1] == (
        "result 18 was further than 5 deviations from the prediction: if mistaken, use amend or retract"
    )
    assert "result 18" in str(r).replace("\n  ", " ")


def test_checks_are_counted_and_their_misses_too() -> None:
    policy = drbo.Checked(drbo.Optimism(drbo.Informative()))
    opt = make(policy=policy, setting=drbo.Simulator(np.full(6, 1 / 6), 0.2))
    assert opt.recommend().trust.checks == 0
    for c in GRID[:2]:
        for x in GRID[:2]:
            opt.tell([x], smooth(x, c), context=[c])
    verified = 0
    for _ in range(8):
        s = opt.ask()
        verified += s.reason == "verify"
        opt.tell(s, smooth(float(s.action[0]), float(s.context[0])))
    assert verified > 0
    r = opt.recommend()
    assert r.trust.checks == verified
    for _ in range(6):  # who follows r.check has a bound that is checked
        if r.trust.verdict == "extrapolated":
            opt.tell(
                r.check.action, smooth(float(r.check.action[0]), float(r.check.context[0])), context=r.check.context
            )
            r = opt.recommend()
    assert r.trust.verdict == "checked"
    times = "once" if verified == 1 else f"{verified} times"
    assert r.trust.reasons[0] == f"checked {times} where it would do worst; all outcomes within the bound"
    assert r.trust.reasons[0] in str(r).replace("\n  ", " ")


def test_without_a_check_of_its_own() -> None:
    opt = everywhere(make())
    opt.ask()
    r = opt.recommend()
    assert (r.trust.verdict, r.trust.checks) == ("checked", 0)
    assert r.trust.reasons == ("evaluated where it would do worst, without a check of its own",)
    assert str(r.trust) == f"checked: {r.trust.reasons[0]}"


def test_a_bound_by_a_theorem_prints_no_verdict() -> None:
    opt = make(beta=drbo.TheoreticalBeta(1.0, 0.1))
    opt.tell([0.0], smooth(0.0, 0.0), context=[0.0])
    r = opt.recommend()
    assert r.claim.proven
    assert r.trust.verdict == "extrapolated"
    assert r.promise.startswith("guaranteed: ")
    assert "extrapolated" not in str(r)


def test_a_target_has_the_verdict_of_its_radius() -> None:
    opt = everywhere(make(radius=0.1))
    opt.ask()
    near, far = (opt.under().recommend_for(target) for target in (-0.385, -0.45))
    assert near.radius < 0.1 < far.radius
    assert str(near).startswith("deploy ")
    assert "estimated: at least -0.385 on average" in str(near)
    assert str(far).startswith("extrapolated: suggestions were for a radius of at most 0.1, and this is ")
    assert "a guess: at least -0.45 on average" in str(far)


def test_a_baseline_that_nobody_evaluated_is_compared_by_a_guess() -> None:
    """REVIEW W3: "better than today's by at least 12.86, certified"; the baseline had never been evaluated."""
    opt = drbo.Optimizer(BOX_1, CONTEXTS_1, setting=drbo.Simulator(np.full(5, 0.2), 0.1), baseline={"x": 0.95})
    for x in (0.1, 0.3, 0.5):
        for c in (0.2, 0.8):
            opt.tell({"x": x}, x * c, context=[c])
    found = opt.under().compare({"x": 0.5})
    assert found.untried == ({"x": 0.95},)
    assert str(found).startswith("extrapolated: nobody has evaluated x = 0.95")
    opt.tell({"x": 0.93}, 0.5, context=[0.4])
    again = opt.under().compare({"x": 0.5})
    assert again.untried == ()
    assert str(again).startswith("better by ")


BOX_1 = drbo.Box(x=(0.0, 1.0))
CONTEXTS_1 = np.linspace(0.0, 1.0, 6)[1:, None].round(1)
