"""Every ambiguity set keeps the contract; and the checks of the contract catch sets that do not."""

import pickle

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from ambiguity import contract
from ambiguity.contract import FAMILIES, RADII, Array, Family, Instance, instances
from drbo import TotalVariation, Wasserstein
from drbo.ambiguity import Divergence, WorstCase, WorstCaseError
from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.ambiguity.placed import on_range
from drbo.ambiguity.wasserstein import PointWasserstein
from drbo.validation import FloatArray

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
radii = st.sampled_from(RADII)


def made(family: Family, contexts: Array) -> SetOrFamily:
    """Return the set of a family on contexts; an example is passed over if they do not have what the set asks for."""
    if not family.possible(contexts):
        reject()
    return family.make(contexts)


@every_family
@given(instance=instances(), radius=radii)
def test_weights_are_feasible_and_certified(family: Family, instance: Instance, radius: float) -> None:
    contract.check_evidence(made(family, instance.contexts), instance, radius)


@every_family
@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("n", [1, 2, 30])
def test_corner_cases_are_feasible_and_certified(family: Family, radius: float, n: int) -> None:
    rng = np.random.default_rng(n)
    contexts = rng.random((n, 2))
    tiny, vertex, sparse = np.full(n, 1e-300), np.zeros(n), rng.random(n) * (rng.random(n) < 0.4)
    tiny[0], vertex[-1] = 1.0, 1.0
    sparse[0] += 0.1
    if not family.possible(contexts):
        pytest.skip("the contexts do not have what the set asks for")
    ambiguity = made(family, contexts)
    for reference in (np.full(n, 1 / n), rng.dirichlet(np.full(n, 0.2)), tiny, vertex, sparse / sparse.sum()):
        base = rng.random(n)
        nearly_tied = rng.integers(0, 2, n) + 1e-13 * base
        for values in (base, np.full(n, 3.3), 1e-12 * base, 1e12 * (base - 0.5), 1e9 + base, nearly_tied, base.round()):
            contract.check_evidence(ambiguity, Instance(contexts, reference, values), radius)


@every_family
@given(instance=instances(), radius=radii, seed=st.integers(0, 2**32 - 1))
def test_no_distribution_is_worse(family: Family, instance: Instance, radius: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    contract.check_no_distribution_is_worse(
        made(family, instance.contexts), instance, radius, rng, alone_at_zero=family.zero_is_reference
    )


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.zero_is_reference], ids=lambda family: family.name)
@given(instance=instances())
def test_radius_zero_is_the_expectation(family: Family, instance: Instance) -> None:
    contract.check_radius_zero(made(family, instance.contexts), instance)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.infinite_is_minimum], ids=lambda family: family.name)
@given(instance=instances())
def test_radius_infinite_is_the_minimum(family: Family, instance: Instance) -> None:
    contract.check_radius_infinite(made(family, instance.contexts), instance, family.stays_on_support)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.stays_on_support], ids=lambda family: family.name)
@given(instance=instances(), radius=radii)
def test_stays_on_the_support(family: Family, instance: Instance, radius: float) -> None:
    contract.check_on_support(made(family, instance.contexts), instance, radius)


@every_family
@given(instance=instances())
def test_monotone_in_the_radius(family: Family, instance: Instance) -> None:
    contract.check_monotone(made(family, instance.contexts), instance, RADII)


@every_family
@given(instance=instances(), radius=radii, scale=st.sampled_from([1e-9, 0.5, 3.0]), shift=st.floats(-10, 10, width=32))
def test_shift_and_scale(family: Family, instance: Instance, radius: float, scale: float, shift: float) -> None:
    contract.check_equivariant(made(family, instance.contexts), instance, radius, scale, shift)


@every_family
@given(instance=instances(), radius=radii, data=st.data())
def test_order_of_contexts_does_not_matter(
    family: Family, instance: Instance, radius: float, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(instance.reference))))
    made(family, instance.contexts)
    contract.check_permutation(family.make, instance, radius, order)


@every_family
@given(instance=instances(), radius=radii, seed=st.integers(0, 2**32 - 1))
def test_concave_in_the_values(family: Family, instance: Instance, radius: float, seed: int) -> None:
    away = np.random.default_rng(seed).normal(size=len(instance.values))
    other = instance.values + (instance.span or 1.0) * away
    contract.check_concave(made(family, instance.contexts), instance, radius, other)


@every_family
@pytest.mark.parametrize("radius", [0.0, 0.01, 0.1, 0.3, 0.6])
def test_gradient_is_the_weights(family: Family, radius: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(4):
        instance = contract.random_instance(rng)
        if family.possible(instance.contexts):
            contract.check_gradient(family.make(instance.contexts), instance, radius)


@every_family
@pytest.mark.parametrize("radius", [0.0, 0.05, 0.4, 2.0, float("inf")])
def test_batches_are_solved_row_by_row(family: Family, radius: float) -> None:
    rng = np.random.default_rng(5)
    contexts, reference = rng.random((7, 2)), rng.dirichlet(np.ones(7))
    contract.check_batch(made(family, contexts), rng.normal(size=(3, 4, 7)), reference, radius)


@every_family
@pytest.mark.parametrize("n", [5, 40, 60])
def test_a_few_rows_have_the_bits_of_each_alone(family: Family, n: int) -> None:
    rng = np.random.default_rng(n)
    ambiguity, reference = as_placed(made(family, rng.random((n, 2)))), rng.dirichlet(np.ones(n))
    for radius in (0.05, 0.4):
        contract.check_rows_alone(ambiguity, rng.normal(size=(3, n)).cumsum(axis=1), reference, radius)


@every_family
@given(first=instances(max_contexts=5), data=st.data())
def test_distance_and_set_agree(family: Family, first: Instance, data: st.DataObject) -> None:
    n = len(first.reference)
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=float)
    weights[0] += 1.0
    contract.check_distance(
        made(family, first.contexts), weights / weights.sum(), first.reference, holds_reference=family.holds_reference
    )


@every_family
@given(instance=instances())
def test_the_diameter_is_the_furthest_distribution(family: Family, instance: Instance) -> None:
    contract.check_diameter(
        as_placed(made(family, instance.contexts)), instance, at_vertex=family.vertices_are_furthest
    )


@every_family
@given(instance=instances(), data=st.data())
def test_a_hull_has_a_diameter_that_holds_every_context_in_it(
    family: Family, instance: Instance, data: st.DataObject
) -> None:
    corners = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
    inside = np.array(data.draw(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 2)), min_size=1, max_size=4)))
    ambiguity = as_placed(made(family, instance.contexts))
    wide = on_range(ambiguity).extended(inside).diameter(np.append(instance.reference, np.zeros(len(inside))))
    assert ambiguity.diameter(instance.reference, corners) >= wide * (1.0 - 1e-9)


@every_family
@pytest.mark.parametrize("radius", [0.03, 0.15, 0.35, 0.8])
def test_brute_force_over_a_grid(family: Family, radius: float) -> None:
    rng = np.random.default_rng(6)
    contexts = np.array([[0.1, 0.2], [0.5, 0.4], [0.6, 0.9]])
    ambiguity = made(family, contexts)
    for reference in ([0.3, 0.5, 0.2], [0.0, 0.6, 0.4], [0.0, 1.0, 0.0]):
        for _ in range(3):
            instance = Instance(contexts, np.array(reference), rng.normal(size=3))
            contract.check_grid(ambiguity, instance, radius, fills_the_simplex=family.fills_the_simplex)


@every_family
def test_bad_input_is_refused(family: Family) -> None:
    contract.check_bad_input(made(family, np.random.default_rng(7).random((4, 2))), 4)


@every_family
def test_counts_and_rounded_shares_are_normalised(family: Family) -> None:
    contract.check_weights_are_normalised(made(family, np.random.default_rng(7).random((4, 2))), 4)


@every_family
@given(instance=instances(), radius=radii)
def test_a_configuration_is_put_on_contexts(family: Family, instance: Instance, radius: float) -> None:
    made(family, instance.contexts)
    contract.check_placing(family.configure(instance.contexts), family.make, instance, radius)


@every_family
@given(instance=instances(), radius=radii, data=st.data())
def test_further_contexts_extend_a_set(family: Family, instance: Instance, radius: float, data: st.DataObject) -> None:
    n_first = data.draw(st.integers(1, len(instance.reference)))
    made(family, instance.contexts[:n_first])
    on_first, on_all = family.configure(instance.contexts[:n_first]), family.configure(instance.contexts, n_first)
    contract.check_extended(on_first, instance, n_first, radius, on_all)


@every_family
@pytest.mark.parametrize("radius", [0.0, 0.05, 0.4, float("inf")])
def test_copies_and_pickles_are_the_same_set(family: Family, radius: float) -> None:
    instance = contract.random_instance(np.random.default_rng(8))
    configured, on_some = family.configure(instance.contexts), family.configure(instance.contexts[:3])
    for ambiguity in (made(family, instance.contexts), configured.on(instance.contexts)):
        contract.check_copies(ambiguity, instance, radius)
        contract.check_copies(as_placed(ambiguity), instance, radius)
    wider = on_range(on_some.on(instance.contexts[:3])).extended(instance.contexts[3:])
    contract.check_copies(wider, instance, radius)
    unplaced = pickle.loads(pickle.dumps(configured)).on(instance.contexts)
    contract.check_alike(unplaced, configured.on(instance.contexts), instance, radius, exactly=True)


# --- the checks can fail: each of these sets breaks one promise ------------------------------------------------------


class Overreaching(TotalVariation):
    """Weights outside the set."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        return super()._solve(values, reference, 2.0 * radius)


class Lazy(TotalVariation):
    """Feasible weights with a made-up certificate."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights, _ = super()._solve(values, reference, 0.9 * radius)
        return weights, (weights * values).sum(axis=1)


class Unscaled(TotalVariation):
    """A radius that depends on the size of the values, on their order and on the row."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        share = min(1.0, float(np.abs(values[0, 0])))
        weights, _ = super()._solve(values, reference, share * radius)
        return weights, (weights * values).sum(axis=1)


class Shrinking(TotalVariation):
    """A set that gets smaller as the radius grows, holds more than the reference at radius 0, and leaks."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights, _ = super()._solve(values, reference, 1.0 / (1.0 + radius))
        return weights, (weights * values).sum(axis=1)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return super()._distance(p, q) + 0.01


class Softened(TotalVariation):
    """Weights that are bad but not the worst, so that they are not the gradient of what they attain."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights = reference * np.exp(-radius * values)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights, (weights * values).sum(axis=1)


class Hopeful(TotalVariation):
    """The best case in place of the worst."""

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights, _ = super()._solve(-values, reference, radius)
        return weights, (weights * values).sum(axis=1)


class Misplaced(Wasserstein):
    """Forgets its order when it is put on contexts."""

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> "Moving":
        return Moving(Wasserstein().on(points, scales).metric, np.asarray(points))  # type: ignore[attr-defined]


class Moving(PointWasserstein):
    """Puts further contexts elsewhere, and forgets which context is which when it is copied."""

    def extended(self, further: FloatArray) -> "Moving":
        return Moving(self.metric, np.concatenate([self.contexts, 2.0 * further]))

    def __reduce__(self) -> tuple[type, tuple[object, FloatArray]]:
        return Moving, (self.metric, self.contexts[::-1])


class Literal(TotalVariation):
    """Takes counts for a distribution."""

    def worst_case(self, values: ArrayLike, reference: ArrayLike, radius: float) -> WorstCase:
        return self.certified(np.atleast_2d(np.asarray(values)), np.asarray(reference, dtype=float), radius)


class Permissive(TotalVariation):
    """Takes any input."""

    def worst_case(self, values, reference, radius):  # type: ignore[no-untyped-def]  # noqa: ARG002
        return super().worst_case(np.zeros(4), np.full(4, 0.25), 0.1)


class Cramped(TotalVariation):
    """A diameter that leaves distributions out."""

    def _diameter(self, reference: FloatArray) -> float:
        return 0.5 * super()._diameter(reference)


VALUES: Array = np.array([0.3, 2.0, 0.7, -1.0])
SAMPLE = Instance(np.random.default_rng(8).random((4, 2)), np.array([0.4, 0.3, 0.3, 0.0]), VALUES)


class Boastful(TotalVariation):
    """Says that two rows are solved each by itself, and rounds the second one otherwise."""

    rows_alone = 2

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights, lower_bound = super()._solve(values, reference, radius)
        lower_bound[1:] = np.nextafter(lower_bound[1:], -np.inf)
        return weights, lower_bound


OTHER: Array = np.array([1.0, -2.0, 0.0, 5.0])


def caught(check: object, *arguments: object) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(*arguments)  # type: ignore[operator]


def test_the_checks_catch_broken_sets() -> None:
    rng = np.random.default_rng(9)
    caught(contract.check_evidence, Overreaching(), SAMPLE, 0.2)
    caught(contract.check_no_distribution_is_worse, Lazy(), SAMPLE, 0.2, rng)
    caught(contract.check_grid, Lazy(), Instance(SAMPLE.contexts[:3], np.array([0.4, 0.3, 0.3]), VALUES[1:]), 0.4)
    caught(contract.check_radius_zero, Shrinking(), SAMPLE)
    caught(contract.check_radius_infinite, Shrinking(), SAMPLE, False)
    caught(contract.check_monotone, Shrinking(), SAMPLE, RADII)
    caught(contract.check_distance, Shrinking(), SAMPLE.reference, np.full(4, 0.25))
    caught(contract.check_on_support, TotalVariation(), SAMPLE, 0.2)
    caught(contract.check_equivariant, Unscaled(), SAMPLE, 0.2, 3.0, 0.0)
    caught(contract.check_equivariant, Unscaled(), SAMPLE, 0.2, 1.0, 2.0)
    caught(contract.check_permutation, lambda _: Unscaled(), SAMPLE, 0.2, [3, 0, 1, 2])
    caught(contract.check_batch, Unscaled(), np.stack([[VALUES, OTHER], [OTHER, VALUES]]), SAMPLE.reference, 0.2)
    caught(contract.check_rows_alone, Boastful(), np.array([VALUES, OTHER]), SAMPLE.reference, 0.2)
    caught(contract.check_concave, Hopeful(), SAMPLE, 0.2, OTHER)
    caught(contract.check_gradient, Softened(), SAMPLE, 0.2)
    caught(contract.check_bad_input, Permissive(), 4)
    squared = Misplaced(order=2)
    caught(contract.check_placing, squared, lambda c: Wasserstein(c, order=2), SAMPLE, 0.2)
    caught(contract.check_extended, squared, SAMPLE, 2, 0.2)
    caught(contract.check_copies, squared.on(SAMPLE.contexts), SAMPLE, 0.2)
    caught(contract.check_diameter, Cramped(), SAMPLE)
    caught(contract.check_weights_are_normalised, Literal(), 4)


def test_the_checks_pass_a_sound_set() -> None:
    sound = TotalVariation()
    contract.check_evidence(sound, SAMPLE, 0.2)
    contract.check_no_distribution_is_worse(sound, SAMPLE, 0.2, np.random.default_rng(9))
    contract.check_concave(sound, SAMPLE, 0.2, OTHER)
    contract.check_gradient(sound, SAMPLE, 0.2)


class LogSumExp(Divergence):
    """A set of one's own: relative entropy, by its dual at one temperature. Its weights sum to 1 up to rounding."""

    temperature = 1e-6

    def _distance(self, p: np.ndarray, q: np.ndarray) -> float:
        return float(p @ np.log(p / q))

    def _solve(self, values: np.ndarray, reference: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        lowest = values.min(axis=1)
        factors = reference * np.exp((lowest[:, None] - values) / self.temperature)
        mass = factors.sum(axis=1)
        rounded = np.log(mass) + 1e-16  # what rounding of the sum of the weights leaves
        return factors / mass[:, None], lowest - self.temperature * (rounded + radius)


@pytest.mark.parametrize("value", [0.0, 1e-12, -1e-9, 5e-324, 1.0])
def test_a_constant_row_is_its_own_worst_case(value: float) -> None:
    """REVIEW V10: a gap of 1e-22 for values of range 0. No distribution is below the lowest value."""
    worst = LogSumExp().worst_case(np.full((2, 3), value), [0.2, 0.3, 0.5], 0.0)
    assert (worst.expectation == value).all()
    assert (worst.lower_bound == value).all()
    with pytest.raises(WorstCaseError, match="left a gap"):  # a bad bound is refused as before
        LogSumExp().worst_case([0.0, 1e-6, 2e-6], [0.2, 0.3, 0.5], 1.0)
