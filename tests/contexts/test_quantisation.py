"""Samples as a few atoms, with the exact Wasserstein distance between the two."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo.ambiguity.metric import Metric
from drbo.contexts.compression import quantise
from tolerances import CLOSED_FORM, SOLVER

FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("order", [1.0, 2.0])
def test_the_error_is_the_distance_of_the_optimal_plan(order: float, norm: float) -> None:
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(80, 2)), rng.dirichlet(np.ones(80))
    weights[7] = 0.0
    weights /= weights.sum()
    small = quantise(points, Metric(order, norm, None), weights, 12)
    assert len(small.index) <= 12
    assert small.weights.sum() == pytest.approx(1.0, abs=CLOSED_FORM)
    whole = np.zeros(80)
    whole[small.index] = small.weights
    exact = drbo.Wasserstein(points, order=order, norm=norm).distance(weights, whole)  # another solver
    assert small.error == pytest.approx(exact, abs=SOLVER)
    assert small.nearest is not None
    assert small.nearest[7] == -1
    assert np.bincount(small.nearest[weights > 0], weights[weights > 0], 12)[: len(small.index)] == pytest.approx(
        small.weights
    )


def test_the_order_of_the_samples_does_not_matter_and_few_are_kept() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(300, 3))
    metric, equal = Metric(1.0, 2.0, None), np.full(300, 1 / 300)
    order = rng.permutation(300)
    one, two = quantise(points, metric, equal, 20), quantise(points[order], metric, equal, 20)
    assert sorted(map(tuple, one.atoms)) == sorted(map(tuple, two.atoms))
    assert one.error == pytest.approx(two.error, rel=1e-12)
    kept = quantise(np.repeat(points[:5], 3, axis=0), metric, np.full(15, 1 / 15), 5)
    assert kept.error == 0.0
    assert len(kept.index) == 5
    spread = quantise(points, metric, equal, 100)
    assert spread.error < 0.5 * one.error


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_bound_on_atoms_holds_for_all_samples(order: float, keyed: bool) -> None:
    rng = np.random.default_rng(2)
    table = {"a": rng.normal(0.0, 1.0, 90), "b": rng.uniform(0.0, 2.0, 90)}
    keys = {"keys": list(range(90))} if keyed else {"support": 0}

    def make(atoms: int) -> Any:
        return drbo.Optimizer(
            np.linspace(0.0, 1.0, 4),
            drbo.Samples(table, atoms=atoms, **keys),
            ambiguity=drbo.Wasserstein(order=order, scale={"a": 1.0, "b": 1.0}),
            setting=drbo.Simulator(radius=0.3),
            surrogate=FIXED,
        )

    few, every = make(15), make(90)
    for i in range(0, 90, 6):
        context = {name: float(column[i]) for name, column in table.items()}
        for opt in (few, every):
            opt.tell(i % 4 / 3.0, np.sin(3.0 * context["a"]) - context["b"], context=context)
    r = few.recommend()
    assert r.radius > 0.3  # and the distance of the atoms from the samples
    assert r.value <= every.bound(r.action).value + 1e-9
    s = few.ask()
    assert s.radius == pytest.approx(r.radius)
    if keyed:
        assert s.key == s.context_index


def test_a_hundred_thousand_rows_have_a_wasserstein_set() -> None:
    rng = np.random.default_rng(3)
    days = drbo.Samples(rng.normal(size=(100_000, 2)) * [8.0, 0.2], names=["outdoor", "load"])
    family = drbo.Wasserstein(scale={"outdoor": 8.0, "load": 0.2})
    opt = drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.Simulator(radius=0.5), surrogate=FIXED)
    s = opt.ask()
    assert 0.5 < s.radius < 0.62
    assert np.count_nonzero(s.reference) <= 300


def test_order_infinity_and_bounds_that_follow_the_mean_need_every_sample() -> None:
    days = drbo.Samples(np.arange(40.0), atoms=10)
    both = drbo.Intersection(drbo.Wasserstein(), drbo.Moments([1.0]))
    for family in (drbo.Wasserstein(order=np.inf), both):
        with pytest.raises(ValueError, match=r"give Samples\(\.\.\., atoms=40\)"):
            drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.Simulator(radius=0.1))


def test_a_rule_adds_the_distance_of_the_atoms() -> None:
    rng = np.random.default_rng(4)
    data = rng.normal(size=200)
    few, every = drbo.Samples(data, atoms=40), drbo.Samples(data, atoms=200)
    rule = drbo.radius.Bootstrap(0.1, resamples=100)
    small, whole = (rule.for_samples(one, drbo.Wasserstein()) for one in (few, every))
    assert whole < small < whole + 0.1
