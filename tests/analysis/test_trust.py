"""The verdict on a bound: what counts as extrapolated, as refuted and as checked, and what is named."""

from dataclasses import replace
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


def untried(r: Recommendation, tried: list[float]) -> float:
    """Return the mass of the worst distribution where nobody has tried the action: far from tried ones, or beyond."""
    contexts = [float(np.atleast_1d(c)[0]) for c in r.contexts]
    far = [min(abs(c - t) for t in tried) > 0.21 or c > max(tried) + 0.06 or c < min(tried) - 0.06 for c in contexts]
    return float(r.weights[far].sum())


@pytest.mark.parametrize("tried", [[0.0, 0.4], [0.0, 0.8], [0.4, 0.8], [0.0, 0.4, 0.8, 1.0]])
def test_conditions_in_which_nobody_tried_the_action_are_extrapolated(tried: list[float]) -> None:
    opt = make()
    opt.ask()  # a suggestion for the present radius
    for x in GRID:
        for c in tried:
            opt.tell([x], smooth(x, c), context=[c])
    r = opt.recommend()
    whole = len(tried) == 4
    assert r.trust.untried == pytest.approx(untried(r, tried))
    assert (r.trust.verdict == "checked") == whole
    assert r.value == r.trust.guess >= r.trust.stressed  # a fixed model keeps its bound
    assert r.statement.startswith("estimated: at least" if whole else "a guess: at least")
    if not whole:
        first, *_, how = r.trust.reasons
        assert first.startswith(
            f"neither this action nor one near it was tried in conditions such as {r.check.context[0]:.4g}"
        )
        stressed, guess = (f"{bound:.4g}" for bound in (r.trust.stressed, r.trust.guess))
        said = f"the bound is {stressed}, and the model's guess is {guess}"
        assert (said if stressed != guess else f"would not change the bound of {guess}") in first
        assert how == f"to check, evaluate {r.check}"
        assert str(r).startswith("extrapolated: ")


def test_conditions_in_which_only_other_actions_were_evaluated_are_extrapolated() -> None:
    """Far from this action all contexts were evaluated; near it, the first one alone."""
    opt = make()
    opt.ask()
    for x in GRID:
        for c in GRID if x >= 0.8 else GRID[:1]:
            opt.tell([x], smooth(x, c), context=[c])
    r = opt.bound([0.4])
    assert r.trust.untried == pytest.approx(untried(r, [0.0]))
    assert r.trust.untried > 0.1
    assert r.trust.verdict == "extrapolated"


def test_who_follows_the_check_has_a_bound_that_is_checked() -> None:
    opt = make()
    opt.ask()
    for x in GRID:
        for c in GRID[[0, 4]]:
            opt.tell([x], smooth(x, c), context=[c])
    first = r = opt.recommend()
    for _ in range(4):
        if r.trust.verdict == "extrapolated":
            np.testing.assert_array_equal(r.check.action, r.action)
            outcome = smooth(float(r.action[0]), float(r.check.context[0]))
            opt.tell(r.check.action, outcome, context=r.check.context)
            r = opt.recommend()
    assert r.trust.verdict == "checked"
    assert first.trust.verdict == "extrapolated"  # that of its own time


def test_a_radius_beyond_those_of_the_suggestions_is_extrapolated() -> None:
    opt = make(radius=0.0)
    everywhere(opt)
    opt.ask()
    assert opt.recommend().trust.verdict == "checked"
    wide = opt.recommend(radius=0.3)
    assert wide.trust.untried == 0.0
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
    assert r.trust.untried == pytest.approx(r.weights[list(r.contexts).index("storm")])
    assert r.trust.verdict == "extrapolated"
    assert r.check.context == "storm"
    assert "in conditions such as storm" in r.trust.reasons[0]


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
    assert r.statement.startswith(f"a guess: at {'least' if maximize else 'most'} ")
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
    count = "one evaluation" if verified == 1 else f"{verified} evaluations"
    said = f"{count} checked a recommended action where it would do worst; all outcomes within the bound"
    assert r.trust.reasons[0] == said
    assert r.trust.reasons[0] in str(r).replace("\n  ", " ")


def test_without_a_check_of_its_own() -> None:
    opt = everywhere(make())
    opt.ask()
    r = opt.recommend()
    assert (r.trust.verdict, r.trust.checks) == ("checked", 0)
    assert r.trust.reasons == ("tried in conditions like those of its worst case; no separate check was made",)
    assert " ".join(str(r.trust).split()) == f"checked: {r.trust.reasons[0]}"


def test_a_bound_by_a_theorem_prints_no_verdict() -> None:
    opt = make(beta=drbo.TheoreticalBeta(1.0, 0.1))
    opt.tell([0.0], smooth(0.0, 0.0), context=[0.0])
    r = opt.recommend()
    assert r.claim.proven
    assert r.trust.verdict == "extrapolated"
    assert r.statement.startswith("guaranteed: ")
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
    assert str(found).startswith("extrapolated: no evaluation of x = 0.95")
    opt.tell({"x": 0.93}, 0.5, context=[0.4])
    again = opt.under().compare({"x": 0.5})
    assert again.untried == ()
    assert again.expected < 0.0
    assert str(again).startswith(
        f"worse by {-again.expected:.4g} under the reference ({-again.upper:.4g} to {-again.lower:.4g})"
    )
    back = replace(again, expected=-again.expected, lower=-again.upper, upper=-again.lower)
    assert str(back).startswith(
        f"better by {back.expected:.4g} under the reference ({back.lower:.4g} to {back.upper:.4g})"
    )


BOX_1 = drbo.Box(x=(0.0, 1.0))
CONTEXTS_1 = np.linspace(0.0, 1.0, 6)[1:, None].round(1)
