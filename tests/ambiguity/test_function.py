"""Functions from contexts to a set, as version 0.1 took them: the same set, asked in the user's units."""

import copy
import functools
import pickle
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import MMD, RBF, Box, Log, TotalVariation, Wasserstein
from drbo.ambiguity import AmbiguitySet
from drbo.ambiguity.function import FunctionSet
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM

BOX = Box(outdoor=(-10.0, 30.0), load=Log(0.1, 10.0))
MAKERS: list[Any] = [
    functools.partial(MMD, kernel=RBF(0.3)), Wasserstein, drbo.Neighbourhood, functools.partial(Wasserstein, order=2.0),
]  # fmt: skip
every_maker = pytest.mark.parametrize("make", MAKERS, ids=repr)


def instance() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Contexts in the model's coordinates and in the user's units, a reference, and values."""
    rng = np.random.default_rng(0)
    coordinates = rng.random((9, 2))
    return coordinates, BOX.measured(coordinates), rng.dirichlet(np.ones(9)), rng.normal(size=9)


@every_maker
def test_the_set_is_that_of_the_models_coordinates(make: Any) -> None:
    coordinates, positions, p, values = instance()
    own, made = FunctionSet(make, BOX).on(positions, BOX.scales), make(coordinates)
    assert (own.n_contexts, own.scale) == (9, made.scale)
    q = np.full(9, 1 / 9)
    assert own.distance(q, p) == pytest.approx(made.distance(q, p), abs=CLOSED_FORM)
    for radius in (0.0, 0.2, np.inf):
        worst, expected = own.worst_case(values, p, radius), made.worst_case(values, p, radius)
        np.testing.assert_allclose(worst.weights, expected.weights, atol=1e-8)
        assert worst.expectation == pytest.approx(float(expected.expectation), abs=1e-8)


@every_maker
def test_thresholds_are_asked_in_the_users_units(make: Any) -> None:
    coordinates, positions, p, values = instance()
    own, made = FunctionSet(make, BOX).on(positions), make(coordinates)
    worst = made.worst_case(values, p, 0.2)
    dual, expected = own.dual(values, p, 0.2, worst), made.dual(values, p, 0.2, worst)
    assert dual is not None
    assert dual.bound == pytest.approx(expected.bound, abs=1e-8)
    rng = np.random.default_rng(1)
    centres = rng.random((5, 2))
    for half in (np.zeros((5, 2)), 0.1 * rng.random((5, 2))):
        level, slope = dual.threshold(BOX.measured(centres), half * BOX.units)
        expected_level, expected_slope = expected.threshold(centres, half)
        np.testing.assert_allclose(level, expected_level, atol=1e-8)
        np.testing.assert_allclose(slope * BOX.units, expected_slope, atol=1e-8)


@every_maker
def test_it_is_extended_in_the_users_units(make: Any) -> None:
    coordinates, positions, p, values = instance()
    extended = FunctionSet(make, BOX).on(positions[:4]).extended(positions[4:])
    worst, expected = extended.worst_case(values, p, 0.2), make(coordinates).worst_case(values, p, 0.2)
    assert worst.expectation == pytest.approx(float(expected.expectation), abs=1e-8)


@every_maker
def test_copies_and_pickles_are_the_same_set(make: Any) -> None:
    _, positions, p, values = instance()
    configured = FunctionSet(make, BOX)
    placed = configured.on(positions)
    for again in (copy.deepcopy(configured).on(positions), pickle.loads(pickle.dumps(placed)), copy.deepcopy(placed)):
        worst, expected = again.worst_case(values, p, 0.2), placed.worst_case(values, p, 0.2)
        np.testing.assert_array_equal(worst.weights, expected.weights)
        assert worst.lower_bound == expected.lower_bound


def test_compression_is_bounded_in_the_kernel_of_the_function() -> None:
    coordinates, positions, _, _ = instance()
    bounded = FunctionSet(MAKERS[0], BOX).compression(positions, BOX.scales)
    assert bounded is not None
    np.testing.assert_allclose(bounded[0], coordinates, atol=CLOSED_FORM)
    assert bounded[1] == RBF(0.3)
    assert FunctionSet(Wasserstein, BOX).compression(positions, BOX.scales) is None


def test_what_makes_no_set_is_refused() -> None:
    positions = instance()[1]
    nothing: Any = lambda contexts: len(contexts)  # noqa: E731
    too_small: Any = lambda _: MMD([0.0, 1.0])  # noqa: E731
    no_function: Any = lambda: TotalVariation()  # noqa: E731
    with pytest.raises(TypeError, match="ambiguity must be a function that returns an AmbiguitySet, got 9"):
        FunctionSet(nothing, BOX).on(positions)
    with pytest.raises(TypeError, match="ambiguity must be a set, or a function from contexts to one"):
        FunctionSet(no_function, BOX).on(positions)
    with pytest.raises(ValueError, match="ambiguity is for 2 contexts, but there are 9"):
        FunctionSet(too_small, BOX).on(positions)


def test_without_contexts_there_is_no_answer() -> None:
    own: AmbiguitySet = FunctionSet(Wasserstein, BOX)
    with pytest.raises(TypeError, match="has no contexts yet"):
        own.distance([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(TypeError, match="has no contexts yet"):
        own.worst_case([0.0, 1.0], [0.5, 0.5], 0.1)


def test_an_optimizer_takes_one_with_a_warning() -> None:
    """It is to be removed in version 0.3."""
    make = functools.partial(MMD, kernel=RBF(0.3))
    with pytest.warns(DeprecationWarning, match="ambiguity"):
        opt = drbo.Optimizer([0.0, 0.5, 1.0], [0.0, 1.0, 3.0], ambiguity=make, setting=drbo.General())
    s = opt.ask(reference=[0.2, 0.3, 0.5], radius=0.1)
    opt.tell(s, 1.0, context_index=0)
