"""The policy that checks the recommended action where nobody has looked."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.knowledge.ahead import Ahead
from drbo.models.data import Units
from drbo.rounds.checked import COVERED, EDGE, MOST_AT_STAKE, _distances
from drbo.rounds.context_rules import Informative

WITHIN = drbo.Box(t=(0.0, 20.0))
BOX = drbo.Box(x=(0.0, 1.0), y=(0.0, 1.0))


def samples() -> drbo.Samples:
    return drbo.Samples({"t": np.random.default_rng(0).normal(10.0, 1.0, 20)}, within=WITHIN)


def optimizer(**arguments: Any) -> drbo.Optimizer:
    usual = {"ambiguity": drbo.Wasserstein(scale={"t": 1.0}), "setting": drbo.Simulator(radius=2.0)}
    return drbo.Optimizer(BOX, samples(), **{**usual, **arguments})


def smooth(action: Any, context: Any) -> float:
    return float(-((action["x"] - 0.3) ** 2) - (action["y"] - 0.6) ** 2 - 0.02 * (context["t"] - 10.0) * action["x"])


def run(opt: drbo.Optimizer, n: int, f: Any = smooth, **terms: Any) -> list[drbo.knowledge.Suggestion]:
    suggestions = []
    for _ in range(n):
        suggestions.append(opt.ask(**terms))
        s = suggestions[-1]
        context = s.context if s.context is not None else {"t": 10.0}
        opt.tell(s, f(s.action, context), context=context if s.context is None else None)
    return suggestions


def distance(context: Any, tried: Any, ranges: Any) -> float:
    """Return the distance of a context from the nearest tried one, written out."""
    if any(context[k] < min(t[k] for t in tried) - EDGE * ranges[k] for k in range(len(ranges))):
        return np.inf
    if any(context[k] > max(t[k] for t in tried) + EDGE * ranges[k] for k in range(len(ranges))):
        return np.inf
    found = []
    for t in tried:
        shares = [abs(context[k] - t[k]) / ranges[k] for k in range(len(ranges))]
        found.append(np.inf if max(shares) > 0.5 else float(np.sqrt(np.mean(np.square(shares)))))
    return min(found)


def test_distances_from_what_was_tried() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        contexts, tried = rng.uniform(-3.0, 5.0, (30, 2)), rng.uniform(-2.0, 4.0, (6, 2))
        ranges = np.ptp(np.concatenate([contexts, tried]), axis=0)
        expected = [distance(c, tried, ranges) for c in contexts]
        np.testing.assert_allclose(_distances(contexts, tried), expected)
    assert np.isinf(_distances(contexts, tried[:0])).all()


def test_another_label_is_never_near_and_a_column_that_never_changes_does_not_count() -> None:
    assert _distances(np.eye(60), np.eye(60)[[0, 1, 1]])[:3].tolist() == [0.0, 0.0, np.inf]
    contexts = np.array([[0.0, 7.0], [0.5, 7.0], [1.0, 7.0]])
    np.testing.assert_allclose(_distances(contexts, contexts[[0, 2]]), [0.0, 0.5 / np.sqrt(2.0), 0.0])


def moved(values: Any, share: float) -> float:
    """Return the worst mean within a total variation `share` of the uniform distribution: mass goes to the lowest."""
    ordered, left, total = sorted(values, reverse=True), share, 0.0
    for one in ordered:
        taken = min(left, 1.0 / len(ordered))
        left -= taken
        total += (1.0 / len(ordered) - taken) * one
    return float(total + share * min(values))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_stressed_bound_counts_conditions_as_worse_the_further_they_are_from_tried_ones(sign: float) -> None:
    """The bound in each context by `predict`, the formula of `Gap` written out, and a worst case by hand."""
    grid = np.linspace(0.0, 1.0, 11)
    opt = drbo.Optimizer(
        grid, grid, ambiguity=drbo.TotalVariation(), setting=drbo.Simulator(np.full(11, 1 / 11), 0.3),
        maximize=sign > 0.0,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    for x in (0.2, 0.5, 0.9):
        opt.ask()  # records what was learned so far
        for c in (0.0, 0.3, 0.5) if x == 0.5 else (0.1, 0.8, 1.0):
            opt.tell([x], sign * (-((x - 0.5) ** 2) - 0.2 * c + 0.01 * rng.normal()), context=[c])
    r = opt.bound([0.5])
    outcomes = [float(result.outcome or 0.0) for result in opt.results]
    worst = min(sign * outcome for outcome in outcomes)
    tried = [0.0, 0.3, 0.5]
    doubt = errors(opt).doubt
    values = []
    for c in grid:
        p = opt.predict([0.5], [c])
        lower = p.lower if sign > 0.0 else -p.upper
        near = c <= 0.5 + EDGE + 1e-9 and min(abs(c - t) for t in tried) <= COVERED
        far = (min(abs(c - t) for t in tried) / COVERED) ** 2 if near else 1.0
        values.append(lower - doubt * far * max(lower - worst, 0.0))
    expected = moved(values, 0.3)
    assert sign * r.trust.stressed == pytest.approx(expected, abs=1e-9)
    assert r.value == pytest.approx(r.trust.stressed, abs=1e-12)
    spread = np.std(outcomes)
    assert (r.trust.verdict == "extrapolated") == (sign * (r.trust.guess - r.trust.stressed) > MOST_AT_STAKE * spread)
    assert r.trust.verdict == "extrapolated"
    assert float(r.check.context[0]) > 0.5


def test_the_recommended_action_has_the_best_bound_of_the_model() -> None:
    opt = optimizer()
    run(opt, 12)
    best = opt.recommend().trust.guess
    tried = [opt.bound(result.action).trust.guess for result in opt.results]
    spread = np.std([float(result.outcome or 0.0) for result in opt.results])
    assert best >= max(tried) - 1e-6 * spread


def errors(opt: drbo.Optimizer) -> Ahead:
    return opt._known.ahead(opt._known.state)


def test_at_most_every_fourth_suggestion_is_a_check() -> None:
    opt = optimizer()
    run(opt, 32)
    checks = [proposal.number for proposal in _proposals(opt) if proposal.reason == "verify"]
    assert checks
    assert all(number % 4 == 3 for number in checks)


def test_the_default_of_a_learned_model_is_checked_and_what_is_said_is_taken() -> None:
    inner = drbo.Optimism(Informative())
    assert optimizer().configuration.policy == drbo.Checked(inner)
    assert optimizer(policy=drbo.Thompson(Informative())).configuration.policy == drbo.Thompson(Informative())
    named = drbo.Simulator(radius=2.0, pick="informative")
    assert optimizer(setting=named).configuration.policy == inner
    fixed = drbo.GP(drbo.kernels.Product(drbo.kernels.RBF(0.3), drbo.kernels.RBF(0.3)), 0.1)
    assert optimizer(surrogate=fixed).configuration.policy == inner


def test_a_check_is_the_recommended_action_where_it_was_not_tried() -> None:
    opt = optimizer()
    for _ in range(24):
        twin = copy.deepcopy(opt)
        seen = twin._known.evaluations(twin._known.state, "", Units(1.0))
        s = opt.ask()
        if s.reason == "verify":
            context, near = s.context_points[0].coordinates, seen.near(s.action_point.coordinates)
            assert s.number % (4 if len(near) >= 2 else 8) in (3, 7)  # the search may leave a new action
            assert s.number % 8 == 7 or len(near) >= 2
            assert _distances(np.array([context, *seen.contexts, [0.0], [1.0]]), near)[0] > 0.0
        opt.tell(s, smooth(s.action, s.context))
    assert "verify" in {proposal.reason for proposal in _proposals(opt)}


def _proposals(opt: drbo.Optimizer) -> list[Any]:
    return [iterate.proposal for iterate in opt._known.state._iterates]


def test_twins_check_the_same(tmp_path: Path) -> None:
    opt = optimizer()
    run(opt, 18)
    opt.save(tmp_path / "a.json")
    twins = [copy.deepcopy(opt), pickle.loads(pickle.dumps(opt)), drbo.Optimizer.load(tmp_path / "a.json")]
    expected = [(s.action, s.context, s.reason) for s in run(opt, 4)]
    assert "verify" in {reason for _, _, reason in expected} | {p.reason for p in _proposals(opt)}
    for twin in twins:
        assert [(s.action, s.context, s.reason) for s in run(twin, 4)] == expected
        assert [p.reason for p in _proposals(twin)] == [p.reason for p in _proposals(opt)]


GROUPS = np.arange(5.0)


@pytest.mark.parametrize(
    ("ambiguity", "radius", "checked"),
    [
        (drbo.MMD(), 0.0, False),
        (drbo.Wasserstein(), 0.0, False),
        (drbo.KL(), 0.0, False),
        (drbo.Expectation(), 0.3, False),
        (drbo.TotalVariation(), 0.3, True),
        (drbo.AnyOf([[0.0, 0.0, 0.0, 0.0, 1.0]]), 0.0, True),
        (drbo.AnyOf([[0.0, 0.0, 0.0, 0.0, 1.0]], within=drbo.MMD()), 0.0, True),
        (drbo.Moments(0.3), 0.0, True),
    ],
    ids=repr,
)
def test_nothing_is_checked_where_the_set_holds_the_reference_alone(
    ambiguity: drbo.AmbiguitySet, radius: float, checked: bool
) -> None:
    """An action is near its own evaluations alone on this grid, and the last conditions are rare."""
    reference = [0.5, 0.3, 0.1, 0.05, 0.05]
    opt = drbo.Optimizer(
        np.linspace(0.0, 1.0, 7), GROUPS, ambiguity=ambiguity, setting=drbo.Simulator(reference, radius), seed=1
    )
    reasons = []
    for _ in range(24):
        s = opt.ask()
        reasons.append(s.reason)
        opt.tell(s, -((s.action[0] - 0.5) ** 2) - 0.1 * s.context[0] * s.action[0])
    assert ("verify" in reasons) == checked


def test_a_cliff_at_the_edge_is_found() -> None:
    def cliff(action: Any, context: Any) -> float:
        return smooth(action, context) - (5.0 if context["t"] > 13.0 and action["x"] < 0.5 else 0.0)

    opt = optimizer()
    asked = run(opt, 16, cliff)
    assert any(s.context["t"] > 13.0 and s.action["x"] < 0.5 for s in asked)
    r = opt.recommend()
    assert r.action["x"] > 0.4 or r.trust.verdict != "checked"


def test_conditions_beyond_all_evaluated_ones_are_checked_early() -> None:
    """The samples lie within 8 and 12 of a range from 0 to 20: a radius of 2 lets the adversary go beyond them."""
    opt = optimizer()
    asked = run(opt, 10)
    contexts = [s.context["t"] for s in asked if s.reason == "verify"]
    assert contexts
    assert max(contexts) > 13.0 or min(contexts) < 7.0


def test_doubt_falls_with_checks_that_went_well_and_rises_with_others() -> None:
    labels = {"a": 0.5, "b": 0.3, "c": 0.2}
    doubts = []
    for fall in (0.0, 50.0):
        opt = drbo.Optimizer(np.linspace(0.0, 1.0, 5), labels, setting=drbo.Simulator(radius=0.2))
        assert errors(opt).doubt == 1.0
        rng = np.random.default_rng(5)
        for label in ("a", "b", "c"):
            opt.ask()  # records what was learned so far
            for x in (0.0, 0.25, 0.5, 0.75, 1.0):
                wrong = fall if (label, x) == ("c", 0.5) else 0.0
                opt.tell([x], x - x**2 + 0.01 * rng.normal() - wrong, context=label)
        ahead = errors(opt)
        assert sum(ahead.checks) == 10  # every action, in two labels after the first
        doubts.append(ahead.doubt)
        surprises = sum(error < -3.0 for error in ahead.errors)
        assert ahead.doubt == pytest.approx(np.sqrt((surprises + 1.0) / 11.0))
    assert doubts[1] > doubts[0]


def test_pending_checks_are_not_repeated() -> None:
    opt = optimizer()
    run(opt, 5)
    batch = opt.ask(4)
    places = {(tuple(s.action.values()), tuple(s.context.values())) for s in batch}
    assert len(places) == 4


def test_several_contexts_of_a_check() -> None:
    opt = optimizer()
    for _ in range(6):
        s = opt.ask(n_contexts=3)
        assert len(s.contexts) == 3
        opt.tell(s, [smooth(s.action, c) for c in s.contexts])


def test_where_nature_picks_the_check_is_the_action_itself() -> None:
    opt = optimizer(setting=drbo.General(), policy=drbo.Checked(drbo.Optimism()))
    asked = run(opt, 20, radius=2.0)
    checks = [s for s in asked if s.reason == "verify"]
    assert checks
    assert all(s.context is None for s in checks)


def test_a_check_never_breaks_a_floor() -> None:
    labels = ["a", "b", "c"]
    grid = np.linspace(0.0, 1.0, 9)[:, None]
    opt = drbo.Optimizer(grid, labels, setting=drbo.Simulator(np.full(3, 1 / 3), 0.3), baseline=[0.5])
    rng = np.random.default_rng(2)

    def f(x: float, label: str) -> float:
        return 1.0 - 4.0 * (x - 0.5) ** 2 - 0.2 * labels.index(label) * x

    for x in (0.5, 0.375, 0.625):
        for label in labels[:2]:
            opt.tell([x], f(x, label) + 0.01 * rng.normal(), context=label)
    reasons = set()
    for _ in range(10):
        s = opt.ask(floor=0.5)
        reasons.add(s.reason)
        if not s.fallback:
            assert opt.bound(s.action).trust.guess >= 0.5 - 1e-6  # floors are judged by the model
        opt.tell(s, f(float(s.action[0]), s.context) + 0.01 * rng.normal())
    assert {result.context for result in opt.results} == set(labels)


@pytest.mark.parametrize("policy", [3, "informative", None, drbo.Checked()])
def test_bad_input(policy: Any) -> None:
    with pytest.raises(TypeError, match="policy must"):
        drbo.Checked(policy)
