"""Perturbations: their columns, distributions as atoms, and where they lead."""

import math
import statistics
from typing import Any

import numpy as np
import pytest

from drbo import Box, Categorical, Integer, Log, Normal, Ordinal, Perturbation, Samples, Uniform
from drbo.spaces.finite import FiniteSet, finite_set
from drbo.spaces.perturbation import Distribution
from tolerances import CLOSED_FORM

ACTIONS = Box(setpoint=(18.0, 24.0), rate=Log(0.1, 10.0), stages=Integer(1, 4), mode=Categorical("a", "b"))


@pytest.mark.parametrize(
    ("one", "mean", "std"), [(Normal(0.2, 0.3), 0.2, 0.3), (Uniform(-1.0, 3.0), 1.0, 4.0 / math.sqrt(12.0))]
)
@pytest.mark.parametrize("count", [2, 64])
def test_atoms_have_the_mean_and_the_deviation(one: Distribution, mean: float, std: float, count: int) -> None:
    atoms = one.atoms(count)
    assert atoms.mean() == pytest.approx(mean, abs=CLOSED_FORM)
    assert atoms.std() == pytest.approx(std, rel=CLOSED_FORM)
    assert (np.diff(atoms) > 0.0).all()


def test_atoms_follow_the_distribution() -> None:
    normal = statistics.NormalDist(0.2, 0.3)
    shares = [normal.cdf(a) for a in Normal(0.2, 0.3).atoms(64)]
    np.testing.assert_allclose(shares, (np.arange(64) + 0.5) / 64, atol=0.01)
    assert np.isfinite(Normal(1e9, 1e-9).atoms(64)).all()
    uniform = Uniform(-1.0, 3.0).atoms(64)
    assert uniform.min() >= -1.0
    assert uniform.max() <= 3.0


def test_one_distribution_has_64_atoms_and_several_have_128() -> None:
    one = Perturbation(setpoint=Normal(0.0, 0.3))
    assert one.points.shape == (64, 1)
    assert one.support == 0
    assert not one.observed
    for d in (2, 3, 5):
        several = Perturbation({f"x{i}": Normal(0.0, 1.0) if i % 2 else Uniform(-1.0, 1.0) for i in range(d)})
        values = several.space.measured(several.points)
        assert values.shape == (128, d)
        assert len(np.unique(values, axis=0)) == 128
        np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=CLOSED_FORM)
        np.testing.assert_allclose(np.corrcoef(values.T), np.eye(d), atol=0.1)
        again = Perturbation(several)
        np.testing.assert_array_equal(again.points, several.points)
        assert again.distributions == several.distributions


@pytest.mark.parametrize(
    "given",
    [
        {"setpoint": [-0.3, 0.1]},
        {"setpoint": [-0.3, 0.1], "rate": [0.0, 0.05]},
        {"setpoint": Normal(0.0, 0.3), "rate": Uniform(-0.1, 0.1)},
        Samples({"setpoint": [-0.3, 0.1, 0.2]}, weights=[0.5, 0.25, 0.25], support=0),
        Samples({"setpoint": [-0.3, 0.1]}, within=Box(setpoint=(-0.5, 0.5))),
        Box(setpoint=(-0.5, 0.5)),
        [[0.1, 0.2], [-0.1, 0.3]],
    ],
)
def test_what_it_was_made_of_makes_it_again(given: Any) -> None:
    one = Perturbation(given)
    two = Perturbation.from_arguments(**one.arguments())
    assert repr(one) == repr(two)
    assert repr(one).startswith("Perturbation(")
    np.testing.assert_array_equal(one.points, two.points)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert (one.support, one.atoms, one.names) == (two.support, two.atoms, two.names)


def test_it_leads_from_an_action_to_the_perturbed_one() -> None:
    perturbation = Perturbation(rate=[math.log(2.0), -0.5], setpoint=[0.6, -0.3])
    shift = perturbation.shift(ACTIONS)
    x = ACTIONS.encode("x", {"setpoint": 20.0, "rate": 1.0, "stages": 2, "mode": "b"}).coordinates
    moved = ACTIONS.encode("x", {"setpoint": 20.6, "rate": 2.0, "stages": 2, "mode": "b"}).coordinates
    np.testing.assert_allclose(shift.places(x[None], perturbation.points[:1])[0], moved, atol=CLOSED_FORM)
    far = perturbation.encode("c", {"setpoint": 7.0, "rate": 0.0}).coordinates
    beyond = shift.places(x[None], far[None])[0]
    assert beyond[0] == pytest.approx((27.0 - 18.0) / 6.0)
    both = shift.places(np.array([x, x + 1.0]), perturbation.points)
    np.testing.assert_allclose(both[2:], both[:2] + 1.0, atol=CLOSED_FORM)


@pytest.mark.parametrize("learned", [False, True])
def test_points_are_perturbed_by_position(learned: bool) -> None:
    points = FiniteSet("actions", [[0.0, 10.0], [4.0, 30.0]])
    space = points.in_unit_cube() if learned else points
    perturbation = Perturbation([[1.0, 5.0], [-1.0, -5.0]])
    shift = perturbation.shift(space)
    there = shift.places(space.coordinates[:1], perturbation.points[:1])
    np.testing.assert_allclose(space.measured(there), [[1.0, 15.0]], atol=CLOSED_FORM)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Perturbation(), TypeError, "Perturbation needs the perturbations of each parameter by name"),
        (lambda: Perturbation([0.1], x=[0.1]), TypeError, "or one table of them instead of names"),
        (lambda: Perturbation(x=["low", "high"]), TypeError, "must hold numbers, .* but x does not"),
        (lambda: Perturbation(Box(x=Log(0.9, 1.1))), TypeError, "must hold numbers, .* but x does not"),
        (lambda: Perturbation(Box(x=Ordinal("a", "b"))), TypeError, "must hold numbers"),
        (lambda: Perturbation(x=[0.1], y=Normal(0, 1)), TypeError, "y is a distribution and x is not"),
        (lambda: Perturbation(x=[0.1, 0.2], y=[0.1]), ValueError, "equal length"),
        (lambda: Perturbation(x=[0.1, math.nan]), ValueError, "x"),
        (lambda: Normal(0.0, 0.0), ValueError, "std must be"),
        (lambda: Uniform(1.0, 1.0), ValueError, "low must be less than high"),
        (lambda: Perturbation(setpoint=[0.1]).shift(finite_set("actions", ["a", "b"])), TypeError, "only numbers"),
        (lambda: Perturbation(stages=[0.1]).shift(ACTIONS), TypeError, "'stages', which is Integer"),
        (lambda: Perturbation(mode=[0.1]).shift(ACTIONS), TypeError, "'mode', which is Categorical"),
        (lambda: Perturbation(speed=[0.1]).shift(ACTIONS), ValueError, "'speed', which is not a parameter"),
        (lambda: Perturbation([[0.1]]).shift(ACTIONS), TypeError, "must name the parameters"),
        (lambda: Perturbation(x=[0.1]).shift(FiniteSet("actions", [0.0, 1.0])), TypeError, "must have no names"),
        (lambda: Perturbation([[0.1, 0.2]]).shift(FiniteSet("actions", [0.0, 1.0])), ValueError, "got 2 column"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
