"""What the model would have predicted of its own outcomes, how bounds narrowed, and how two actions compare."""

from typing import Any

import numpy as np
import pytest

from drbo import GP, MMD, RBF, Box, General, LearnedGP, Optimizer, Product, Samples, Simulator

ROUND: dict[str, Any] = {"reference": np.full(5, 0.2), "radius": 0.1}


def grid(maximize: bool = True, told: int = 15) -> Optimizer:
    opt = Optimizer(
        np.linspace(0, 1, 9),
        np.linspace(0, 1, 5),
        ambiguity=MMD(kernel=RBF(0.3)),
        setting=General(),
        surrogate=GP(Product(RBF(0.3), RBF(0.4)), 0.1, offset=2.0, scale=3.0),
        maximize=maximize,
        baseline=0.5,
    )
    rng = np.random.default_rng(0)
    for i in range(told):
        opt.tell(rng.integers(9) / 8, 2.0 + 3.0 * rng.normal(), context_index=int(rng.integers(5)))
        if i == 3:
            opt.tell(0.0, failed=True, context_index=0)
    return opt


@pytest.mark.parametrize("maximize", [True, False])
def test_each_outcome_is_predicted_from_the_others(maximize: bool) -> None:
    opt = grid(maximize)
    found = opt.leave_one_out()
    assert len(found.outcome) == 15
    for i, result in enumerate(r for r in opt.results if not r.failed):
        assert found.id[i] == result.id
        assert found.outcome[i] == result.outcome
        others = grid(maximize)
        others.retract(result.id)
        predicted = others.predict(result.action, result.context)
        assert found.mean[i] == pytest.approx(predicted.mean, abs=1e-8)
        assert found.std[i] == pytest.approx(np.hypot(predicted.std, 0.3), abs=1e-8)  # the noise of an outcome


def test_the_share_inside_is_counted() -> None:
    found = grid().leave_one_out()
    inside = np.abs(found.outcome - found.mean) <= found.width * found.std
    assert np.array_equal(found.inside, inside)
    assert f"{inside.sum()} of 15 outcomes" in str(found)
    assert "no outcome" in str(grid(told=0).leave_one_out())


@pytest.mark.parametrize("maximize", [True, False])
def test_two_actions_compare_as_the_joint_posterior_says(maximize: bool) -> None:
    opt = grid(maximize)
    found = opt.under(**ROUND).compare(0.75, 0.25)
    sign = 1.0 if maximize else -1.0
    means = [[opt.predict(x, c).mean for c in np.linspace(0, 1, 5)] for x in (0.75, 0.25)]
    assert found.expected == pytest.approx(sign * (np.mean(means[0]) - np.mean(means[1])), abs=1e-9)
    assert found.worst <= found.lower <= found.expected <= found.upper
    assert found.complete
    back = opt.under(**ROUND).compare(0.25, 0.75)
    assert back.expected == pytest.approx(-found.expected, abs=1e-9)
    assert back.lower == pytest.approx(-found.upper, abs=1e-9)
    apart = [opt.predict(x, 0.5) for x in (0.75, 0.25)]
    assert found.upper - found.lower < sum(p.upper - p.lower for p in apart)


def test_before_the_first_outcome_nothing_is_said_of_a_difference() -> None:
    asked = Optimizer([0.0, 1.0], [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain")).under()
    assert str(asked.compare(0.0, 1.0)) == "no outcome has been told, so nothing is known about the difference"
    assert str(asked.regret_bound()).startswith("nothing bounds the distance from the best action")


def test_the_baseline_is_compared_with_by_default() -> None:
    opt = grid()
    assert opt.under(**ROUND).compare(0.75) == opt.under(**ROUND).compare(0.75, 0.5)
    same = opt.under(**ROUND).compare(0.5)
    assert (same.expected, same.lower, same.upper, same.worst) == (0.0, 0.0, 0.0, 0.0)
    bare = Optimizer([0.0, 1.0], [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain"))
    with pytest.raises(TypeError, match="other must be given"):
        bare.under().compare(0.0)
    nothing = bare.under().compare(0.0, 1.0)
    assert np.isnan(nothing.expected)
    assert nothing.lower == -np.inf


def test_a_range_is_not_certified() -> None:
    opt = Optimizer(
        Box(x=(0.0, 1.0)),
        Samples(np.linspace(0, 1, 9)[:, None], within=Box(c=(0.0, 1.0))),
        setting=Simulator(radius=0.1, pick="uncertain"),
        surrogate=LearnedGP(),
    )
    for i in range(6):
        opt.tell({"x": i / 5}, float(i % 3), context={"c": i / 6})
    before = opt.history
    assert not opt.under().compare({"x": 0.2}, {"x": 0.8}).complete
    assert len(opt.leave_one_out().outcome) == 6
    assert opt.history == before


@pytest.mark.parametrize("maximize", [True, False])
def test_bounds_narrow_as_optimizers_with_fewer_results_say(maximize: bool) -> None:
    opt = grid(maximize)
    before = opt.history
    found = opt.under(**ROUND).narrowing(0.75)
    assert opt.history == before
    assert found.evaluations.tolist() == list(range(1, 17))  # one of them failed
    results = opt.results
    for count in (1, 4, 5, 9, 16):
        shorter = grid(maximize)
        for result in results[count:]:
            shorter.retract(result.id)
        expected = shorter.bound(0.75, **ROUND).value
        assert found.bound[count - 1] == pytest.approx(expected, rel=1e-8)
        flipped = [shorter.predict(0.75, c) for c in np.linspace(0, 1, 5)]
        best = np.array([p.upper if maximize else -p.lower for p in flipped])
        worst = MMD(np.linspace(0, 1, 5), kernel=RBF(0.3)).worst_case(best, np.full(5, 0.2), 0.1).expectation
        assert found.optimistic[count - 1] == pytest.approx(worst if maximize else -worst, rel=1e-8)
    assert found.bound[4] == found.bound[3]  # a failure tells nothing


def test_bounds_of_a_box_with_a_range_end_at_the_certificate() -> None:
    rng = np.random.default_rng(2)
    for contexts in (Samples({"c": rng.normal(size=30)}, within=Box(c=(-5.0, 5.0))), Box(c=(0.0, 1.0))):
        opt = Optimizer(
            Box(x=(0.0, 1.0)), contexts, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=LearnedGP()
        )
        assert len(opt.under().narrowing({"x": 0.5}).evaluations) == 0
        for _ in range(7):
            s = opt.ask()
            opt.tell(s, s.action["x"] * s.context["c"])
        r = opt.recommend()
        found = opt.under().narrowing(r.action, steps=3)
        assert found.evaluations.tolist() == [1, 4, 7]
        assert found.bound[-1] == pytest.approx(opt.bound(r.action).trust.guess, rel=1e-9)
        assert (found.optimistic >= found.bound).all()
    with pytest.raises(ValueError, match="steps"):
        opt.under().narrowing(r.action, steps=0)
