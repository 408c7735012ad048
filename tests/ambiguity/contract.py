"""The contract that every ambiguity set keeps: checks that take any set, and the sets to run them on.

The checks use nothing of a set but `distance` and `worst_case`, and `on` and `extended` where they are about these.
A set that depends on the contexts is there twice: a family made with them, and a family put `on` them.
`test_contract.py` runs them all on every set, and shows on broken sets that they can fail.
"""

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from drbo import (
    KL,
    MMD,
    AmbiguitySet,
    AnyOf,
    ChiSquare,
    CVaR,
    Expectation,
    Intersection,
    Moments,
    Neighbourhood,
    PhiDivergence,
    Shares,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import PlacedSet, WorstCase
from drbo.ambiguity.family import SetOrFamily
from drbo.ambiguity.neighbourhood import PlacedNeighbourhood
from drbo.ambiguity.placed import on_range
from drbo.kernels import RBF
from drbo.spaces.space import Column
from tolerances import CLOSED_FORM, FEASIBLE, FINITE_DIFFERENCES, SOLVER

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """One way to make a set from contexts, and which of the optional promises it keeps."""

    name: str
    make: Callable[[Array], SetOrFamily]
    configured: AmbiguitySet | Callable[[Array, int], AmbiguitySet]
    """The same set as a configuration, which `on` puts on contexts; or how it is made for contexts, of which scenarios
    use the first few."""
    possible: Callable[[Array], bool] = lambda _: True
    """Whether contexts have what the set asks for."""
    zero_is_reference: bool = True
    """Radius 0 gives the expectation under the reference."""
    infinite_is_minimum: bool = True
    """Radius inf gives the minimum over the contexts that the set may use."""
    stays_on_support: bool = False
    """Contexts of zero reference weight keep it."""
    holds_reference: bool = True
    """The reference belongs to its own set at every radius."""
    fills_the_simplex: bool = True
    """The set has inner points, of the dimension of the simplex."""
    vertices_are_furthest: bool = True
    """A distribution that is furthest from the reference has all mass on one context."""

    def configure(self, contexts: Array, n_first: int | None = None) -> AmbiguitySet:
        """Return the configuration for contexts; scenarios use the first `n_first` of them."""
        n = len(contexts) if n_first is None else n_first
        return self.configured if isinstance(self.configured, AmbiguitySet) else self.configured(contexts, n)


def _families() -> list[Family]:
    anywhere: list[tuple[AmbiguitySet, bool, bool]] = [
        (Expectation(), False, True), (TotalVariation(), True, False), (KL(), True, True), (ChiSquare(), True, True),
        (CVaR(), True, True),
    ]  # fmt: skip
    placed: list[tuple[str, Callable[[Array], SetOrFamily], AmbiguitySet, bool]] = [
        ("Neighbourhood", Neighbourhood, Neighbourhood(), False),
        ("MMD", lambda contexts: MMD(contexts, RBF(0.3)), MMD(kernel=RBF(0.3)), True),
        ("Wasserstein-1", Wasserstein, Wasserstein(), True),
        ("Wasserstein-2", lambda contexts: Wasserstein(contexts, order=2), Wasserstein(order=2), True),
        ("Wasserstein-inf", lambda contexts: Wasserstein(contexts, order=np.inf), Wasserstein(order=np.inf), True),
    ]
    families = [
        Family(
            type(own).__name__,
            lambda _, own=own: own,  # type: ignore[misc]
            own,
            infinite_is_minimum=to_minimum,
            stays_on_support=on_support,
        )
        for own, to_minimum, on_support in anywhere
    ]
    for name, make, configured, zero in placed:
        for way, made in ((name, make), (f"{name}, put on contexts", configured.on)):
            families.append(Family(way, made, configured, zero_is_reference=zero, holds_reference=zero))
    moments = Moments([0.2, 0.3])
    families.append(Family("Moments", moments.on, moments, zero_is_reference=False))
    shares = Shares(old=(0.2, 0.5)).with_columns(AGES)
    families.append(
        Family(
            "Shares",
            shares.on,
            shares,
            has_both_ages,
            zero_is_reference=False,
            infinite_is_minimum=False,
            holds_reference=False,
            fills_the_simplex=False,
            vertices_are_furthest=False,
        )
    )
    families.append(
        Family(
            "AnyOf",
            lambda contexts: one_scenario(contexts, len(contexts)).on(contexts),
            one_scenario,
            zero_is_reference=False,
        )
    )
    for phi, flags in (
        (PhiDivergence(kl), {"stays_on_support": True}),
        (PhiDivergence(hellinger, hellinger_conjugate, slope_at_infinity=1.0), {}),
        (PhiDivergence(half_distance, slope_at_infinity=0.5), {}),
        (PhiDivergence(reverse_kl, slope_at_infinity=1.0), {"vertices_are_furthest": False}),
        (PhiDivergence(capped), {"stays_on_support": True, "infinite_is_minimum": False}),
    ):
        families.append(replace(Family(repr(phi), lambda _, phi=phi: phi, phi), **flags))  # type: ignore[misc,arg-type]
    both = Intersection(MMD(kernel=RBF(0.3)), Moments([0.2, 0.3]))
    families.append(Family("Intersection", both.on, both, infinite_is_minimum=False, vertices_are_furthest=False))
    return families


def kl(t: Array) -> Array:
    return np.asarray(special.xlogy(t, t) - t + 1.0)


def hellinger(t: Array) -> Array:
    return np.asarray((np.sqrt(t) - 1.0) ** 2)


def hellinger_conjugate(y: Array) -> Array:
    return np.asarray(np.where(y < 1.0, y / np.where(y < 1.0, 1.0 - y, 1.0), np.inf))


def half_distance(t: Array) -> Array:
    return np.asarray(0.5 * np.abs(t - 1.0))


def reverse_kl(t: Array) -> Array:
    return np.asarray(np.where(t > 0.0, t - 1.0 - np.log(np.where(t > 0.0, t, 1.0)), np.inf))


def capped(t: Array) -> Array:
    """The ratios that CVaR allows at radius 0.7; the radius of the divergence does not matter."""
    return np.asarray(np.where(t <= 1.0 / 0.3, 0.0, np.inf))


def one_scenario(contexts: Array, n_first: int, within: AmbiguitySet | None = None) -> AnyOf:
    """Return the set of one scenario, whose weights grow along the first coordinate of the first few contexts."""
    weights = np.where(np.arange(len(contexts)) < n_first, 1.0 + contexts[:, 0], 0.0)
    return AnyOf([weights / weights.sum()], within or TotalVariation())


AGES = (Column("age", 0, labels=("young", "old"), levels=np.array([[0.3], [0.6]])), Column("place", 1))
"""The first coordinate of every context is an age, that of the nearer level."""


def has_both_ages(contexts: Array) -> bool:
    old = AGES[0].holds(contexts, "old")
    return bool(0.0 < old.sum() < len(old))


FAMILIES = _families()

RADII = (0.0, 1e-12, 1e-9, 1e-4, 0.01, 0.05, 0.2, 0.45, 0.7, 0.95, 1.0, 1.5, 4.0, 30.0, 1e6, float("inf"))


@dataclass(frozen=True)
class Instance:
    contexts: Array
    reference: Array
    values: Array

    @property
    def span(self) -> float:
        return float(np.ptp(self.values))

    @property
    def rounding(self) -> float:
        return 16 * np.finfo(float).eps * float(np.abs(self.values).max())


@st.composite
def instances(draw: st.DrawFn, max_contexts: int = 6) -> Instance:
    """Small problems full of ties, repeated contexts and zero weights, with values of any size and offset."""
    n = draw(st.integers(1, max_contexts))

    def several(elements: st.SearchStrategy[float]) -> Array:
        return np.array(draw(st.lists(elements, min_size=n, max_size=n)), dtype=float)

    contexts = np.stack([several(st.integers(0, 8).map(float)), several(st.integers(0, 2).map(float))], axis=1) / 8
    weights = several(st.one_of(st.sampled_from([0.0, 1.0, 1.0, 2.0, 1e-9, 1e-300]), st.floats(0.0, 1.0, width=32)))
    if weights.max() < 1e-6:
        weights[draw(st.integers(0, n - 1))] = 1.0
    values = several(st.one_of(st.integers(-3, 3).map(float), st.floats(-1.0, 1.0, width=32)))
    scale = draw(st.sampled_from([1.0, 1.0, 1e-12, 1e12]))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, 1e9])) * (1.0 if scale < 1e12 else 1e3)
    return Instance(contexts, weights / weights.sum(), offset + scale * values)


def random_instance(rng: np.random.Generator, n: int = 8) -> Instance:
    """A problem without ties, where worst cases are differentiable."""
    return Instance(rng.random((n, 2)), rng.dirichlet(np.ones(n)), rng.normal(size=n))


def belongs(ambiguity: SetOrFamily, q: Array, reference: Array, radius: float) -> bool:
    """Whether q is in the set; what cannot be compared with the reference is in none, not even of infinite radius."""
    distance = ambiguity.distance(q, reference)
    return distance <= radius and distance < np.inf


# --- the checks ------------------------------------------------------------------------------------------------------


def check_evidence(ambiguity: SetOrFamily, instance: Instance, radius: float) -> WorstCase:
    """Weights are a distribution of the set that attains the expectation, and the certificate closes."""
    values, reference = instance.values, instance.reference
    worst = ambiguity.worst_case(values, reference, radius)
    weights = worst.weights
    assert weights.shape == values.shape
    assert weights.min() >= 0.0, f"negative weight {weights.min()}"
    assert abs(weights.sum() - 1.0) <= 1e-12, f"weights sum to {weights.sum()!r}"
    distance = ambiguity.distance(weights, reference)
    if not isinstance(
        ambiguity, Neighbourhood | PlacedNeighbourhood
    ):  # which takes the nearest context where its ball holds none
        assert distance <= radius + FEASIBLE * max(1.0, radius), f"distance {distance!r} at radius {radius}"
    exact = values.min() + weights @ (values - values.min())
    assert abs(worst.expectation - exact) <= instance.rounding
    assert 0.0 <= worst.gap <= SOLVER * instance.span + instance.rounding, f"gap {worst.gap} of {instance.span}"
    assert worst.expectation >= values.min() - instance.rounding
    return worst


def check_no_distribution_is_worse(
    ambiguity: SetOrFamily, instance: Instance, radius: float, rng: np.random.Generator, *, alone_at_zero: bool = True
) -> None:
    """No vertex, no move of one context's mass onto the lowest value and no random distribution beats the bound.

    Each is pulled back into the set first, towards the reference or, if that is not in the set, towards a distribution
    that is worst for other values. `alone_at_zero`: the set of radius zero is the reference alone, by definition, also
    where other distributions are at distance zero from it.
    """
    if radius == 0.0 and alone_at_zero:
        return
    reference = centre = instance.reference
    if not belongs(ambiguity, centre, reference, radius):
        centre = ambiguity.worst_case(rng.normal(size=len(reference)), reference, radius).weights
    bound = float(ambiguity.worst_case(instance.values, reference, radius).lower_bound)
    n = len(reference)
    onto_lowest = [
        reference + reference[i] * (np.eye(n)[j] - np.eye(n)[i])
        for i in range(n)
        for j in (int(np.argmin(instance.values)), int(np.argmin(np.where(reference > 0, instance.values, np.inf))))
    ]
    for target in [*np.eye(n), *onto_lowest, *rng.dirichlet(np.full(n, 0.5), size=4)]:
        inside, outside = 0.0, 1.0
        if belongs(ambiguity, target, reference, radius):
            inside = 1.0
        else:  # bisection: the set is convex
            for _ in range(30):
                middle = 0.5 * (inside + outside)
                near = belongs(ambiguity, centre + middle * (target - centre), reference, radius)
                inside, outside = (middle, outside) if near else (inside, middle)
        member = centre + inside * (target - centre)
        if belongs(ambiguity, member, reference, radius):
            shortfall = bound - (instance.values.min() + member @ (instance.values - instance.values.min()))
            assert shortfall <= SOLVER * instance.span + instance.rounding, f"{member} is worse by {shortfall}"


def check_radius_zero(ambiguity: SetOrFamily, instance: Instance) -> None:
    worst = ambiguity.worst_case(instance.values, instance.reference, 0.0)
    np.testing.assert_array_equal(worst.weights, instance.reference)
    assert worst.lower_bound == worst.expectation


def check_radius_infinite(ambiguity: SetOrFamily, instance: Instance, stays_on_support: bool) -> None:
    worst = ambiguity.worst_case(instance.values, instance.reference, float("inf"))
    allowed = instance.reference > 0.0 if stays_on_support else np.full(len(instance.reference), True)
    assert worst.expectation == pytest.approx(instance.values[allowed].min(), rel=1e-12, abs=SOLVER * instance.span)
    assert worst.lower_bound <= worst.expectation


def check_on_support(ambiguity: SetOrFamily, instance: Instance, radius: float) -> None:
    """Contexts without reference weight neither get weight nor change anything by their value."""
    empty = instance.reference == 0.0
    worst = ambiguity.worst_case(instance.values, instance.reference, radius)
    assert (worst.weights[empty] == 0.0).all()
    other = ambiguity.worst_case(
        np.where(empty, instance.values.max() + instance.span, instance.values), instance.reference, radius
    )
    assert abs(other.expectation - worst.expectation) <= SOLVER * instance.span + instance.rounding


def check_monotone(ambiguity: SetOrFamily, instance: Instance, radii: Sequence[float]) -> None:
    expectations = [
        float(ambiguity.worst_case(instance.values, instance.reference, radius).expectation) for radius in sorted(radii)
    ]
    assert max(np.diff(expectations), default=0.0) <= SOLVER * instance.span + instance.rounding, expectations


def check_equivariant(ambiguity: SetOrFamily, instance: Instance, radius: float, scale: float, shift: float) -> None:
    moved = Instance(instance.contexts, instance.reference, scale * instance.values + shift)
    before = ambiguity.worst_case(instance.values, instance.reference, radius).expectation
    after = ambiguity.worst_case(moved.values, instance.reference, radius).expectation
    tolerance = SOLVER * moved.span + moved.rounding + scale * instance.rounding
    assert abs(after - (scale * before + shift)) <= tolerance


def check_permutation(
    make: Callable[[Array], SetOrFamily], instance: Instance, radius: float, order: Sequence[int]
) -> None:
    shuffled = np.array(order)
    before = make(instance.contexts).worst_case(instance.values, instance.reference, radius)
    after = make(instance.contexts[shuffled]).worst_case(
        instance.values[shuffled], instance.reference[shuffled], radius
    )
    assert abs(after.expectation - before.expectation) <= SOLVER * instance.span + instance.rounding


def check_concave(ambiguity: SetOrFamily, instance: Instance, radius: float, other: Array) -> None:
    """The worst case is concave in the values, and its weights are a supergradient: f(v') <= f(v) + <w, v' - v>."""
    worst = ambiguity.worst_case(instance.values, instance.reference, radius)
    away = ambiguity.worst_case(other, instance.reference, radius).expectation
    middle = ambiguity.worst_case(0.5 * (instance.values + other), instance.reference, radius).expectation
    tolerance = SOLVER * (instance.span + float(np.ptp(other))) + instance.rounding
    assert away <= worst.weights @ other + tolerance
    assert middle >= 0.5 * (worst.expectation + away) - tolerance


def check_gradient(ambiguity: SetOrFamily, instance: Instance, radius: float) -> None:
    """Danskin: the gradient of the worst case in the values is the worst-case weights."""
    step = 1e-6
    moves = step * np.eye(len(instance.values))
    up = ambiguity.worst_case(instance.values + moves, instance.reference, radius).expectation
    down = ambiguity.worst_case(instance.values - moves, instance.reference, radius).expectation
    weights = ambiguity.worst_case(instance.values, instance.reference, radius).weights
    np.testing.assert_allclose((up - down) / (2 * step), weights, atol=FINITE_DIFFERENCES)


def check_batch(ambiguity: SetOrFamily, values: Array, reference: Array, radius: float) -> None:
    """Values of shape (a, b, n) are solved row by row."""
    batch = ambiguity.worst_case(values, reference, radius)
    assert batch.expectation.shape == batch.lower_bound.shape == batch.gap.shape == values.shape[:-1]
    assert batch.weights.shape == values.shape
    for row in np.ndindex(values.shape[:-1]):
        alone = ambiguity.worst_case(values[row], reference, radius)
        np.testing.assert_allclose(batch.expectation[row], alone.expectation, atol=CLOSED_FORM)
        np.testing.assert_allclose(batch.weights[row], alone.weights, atol=CLOSED_FORM)
        np.testing.assert_allclose(batch.lower_bound[row], alone.lower_bound, atol=CLOSED_FORM)
    empty = ambiguity.worst_case(values.reshape(-1, values.shape[-1])[:0], reference, radius)
    assert empty.expectation.shape == (0,)


def check_rows_alone(ambiguity: PlacedSet, values: Array, reference: Array, radius: float) -> None:
    """As many rows of values (m, n) as the set says are solved with the bits of each one alone."""
    some = values[: getattr(ambiguity, "rows_alone", 1)]
    assert len(some) >= 1
    batch = ambiguity.certified(some, reference, radius)
    for i in range(len(some)):
        alone = ambiguity.certified(some[i : i + 1], reference, radius)
        for one, other in ((batch.expectation, alone.expectation), (batch.weights, alone.weights)):
            np.testing.assert_array_equal(one[i], other[0])
        np.testing.assert_array_equal(batch.lower_bound[i], alone.lower_bound[0])


def check_distance(ambiguity: SetOrFamily, p: Array, q: Array, *, holds_reference: bool = True) -> None:
    """Zero from a distribution to itself, never negative, and the set of that very radius holds the first one."""
    assert ambiguity.distance(p, p) <= FEASIBLE or not holds_reference
    assert ambiguity.distance(p, q) >= 0.0
    values = q - p  # lower where p has more than q
    if (radius := ambiguity.distance(p, q)) < np.inf:
        bound = ambiguity.worst_case(values, q, radius + FEASIBLE).lower_bound
        assert bound <= p @ values + SOLVER * np.ptp(values)


def check_diameter(ambiguity: PlacedSet, instance: Instance, *, at_vertex: bool = True) -> None:
    """The diameter is the largest finite distance of a vertex, and from there on nothing more comes into the set."""
    diameter = ambiguity.diameter(instance.reference)
    distances = np.array([ambiguity.distance(vertex, instance.reference) for vertex in np.eye(len(instance.reference))])
    furthest = distances[np.isfinite(distances)].max(initial=0.0)
    if at_vertex:
        assert diameter == pytest.approx(furthest, rel=1e-9, abs=CLOSED_FORM)
    assert diameter >= furthest * (1.0 - 1e-9) - CLOSED_FORM
    at, beyond = (
        ambiguity.worst_case(instance.values, instance.reference, radius).expectation
        for radius in (diameter * (1.0 + 1e-12), float("inf"))
    )
    if diameter > 0.0:
        # A vertex at distance d, moved by a rounding of 1e-9 d, changes the expectation by at most that share of it.
        assert at <= beyond + 1e-7 * instance.span + instance.rounding


def check_grid(
    ambiguity: SetOrFamily, instance: Instance, radius: float, steps: int = 24, *, fills_the_simplex: bool = True
) -> None:
    """On three contexts, the worst case is that of all distributions on a fine grid, to the width of the grid."""
    i, j = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1))
    grid = np.stack([i, j, steps - i - j], axis=-1)[i + j <= steps] / steps
    members = [q for q in grid if belongs(ambiguity, q, instance.reference, radius)]
    worst = ambiguity.worst_case(instance.values, instance.reference, radius)
    best = min((float(q @ instance.values) for q in members), default=np.inf)
    assert worst.lower_bound <= best + CLOSED_FORM
    assert worst.expectation <= best + SOLVER * instance.span
    if members and fills_the_simplex and radius > 4 / steps:  # smaller sets fall between the points of the grid
        assert worst.expectation >= best - 3 / steps * instance.span


def check_alike(one: SetOrFamily, other: SetOrFamily, instance: Instance, radius: float, exactly: bool) -> None:
    """Two sets have the same distances and worst cases, to the last bit or up to rounding."""
    uniform = np.full(len(instance.reference), 1.0 / len(instance.reference))
    for p, q in ((uniform, instance.reference), (instance.reference, uniform)):
        distances = one.distance(p, q), other.distance(p, q)
        # A factor of another order misses up to 1e-7 of a distance, see the docstring of MMD.
        assert distances[0] == (distances[1] if exactly else pytest.approx(distances[1], rel=1e-9, abs=1e-7))
    worst, of_other = (own.worst_case(instance.values, instance.reference, radius) for own in (one, other))
    if exactly:
        np.testing.assert_array_equal(worst.weights, of_other.weights)
        assert worst.expectation == of_other.expectation
        assert worst.lower_bound == of_other.lower_bound
    else:
        assert abs(worst.expectation - of_other.expectation) <= SOLVER * instance.span + instance.rounding


def check_placing(
    configured: AmbiguitySet, make: Callable[[Array], SetOrFamily], instance: Instance, radius: float
) -> None:
    """A configuration put on contexts is the set made with them; a set that was made with them stays what it is."""
    made = make(instance.contexts)
    check_alike(configured.on(instance.contexts), made, instance, radius, exactly=True)
    if not isinstance(made, AmbiguitySet):
        return
    check_alike(made.on(instance.contexts, np.ones(instance.contexts.shape[1])), made, instance, radius, exactly=True)
    if made.n_contexts is not None:
        with pytest.raises(ValueError, match=r"ambiguity is for \d+ contexts, but there are \d+"):
            made.on(np.concatenate([instance.contexts, instance.contexts]))


def check_extended(
    configured: AmbiguitySet, instance: Instance, n_first: int, radius: float, on_all: AmbiguitySet | None = None
) -> None:
    """A set on some contexts, extended by the others at once or one by one, is the set on all of them."""
    first, further = instance.contexts[:n_first], instance.contexts[n_first:]
    whole = (on_all or configured).on(instance.contexts)
    at_once = one_by_one = configured.on(first)
    at_once = on_range(at_once).extended(further)
    for context in further:
        one_by_one = on_range(one_by_one).extended(context[None])
    for extended in (at_once, one_by_one):
        assert extended.n_contexts == whole.n_contexts
        check_alike(extended, whole, instance, radius, exactly=False)


def check_copies(ambiguity: SetOrFamily, instance: Instance, radius: float) -> None:
    """Copies, also through a pickle, answer with the same bits, and so does the set itself after it was asked."""
    for made in (copy.deepcopy(ambiguity), pickle.loads(pickle.dumps(ambiguity))):
        check_alike(made, ambiguity, instance, radius, exactly=True)
        check_alike(pickle.loads(pickle.dumps(ambiguity)), made, instance, radius, exactly=True)
        assert repr(made) == repr(ambiguity)


def check_weights_are_normalised(ambiguity: SetOrFamily, n: int) -> None:
    """Counts, and shares that were rounded, stand for the distribution in proportion to them."""
    counts = np.arange(1.0, n + 1.0)
    reference, values = counts / counts.sum(), np.sin(np.arange(n))
    exact = ambiguity.worst_case(values, reference, 0.1)
    for given in (counts, counts.astype(int).tolist(), reference * (1.0 + 5e-4)):
        worst = ambiguity.worst_case(values, given, 0.1)
        np.testing.assert_allclose(worst.weights, exact.weights, atol=CLOSED_FORM)
        assert worst.expectation == pytest.approx(float(exact.expectation), abs=CLOSED_FORM)
        away = reference[::-1].copy()
        assert ambiguity.distance(away, given) == pytest.approx(ambiguity.distance(away, reference), abs=CLOSED_FORM)


def check_bad_input(ambiguity: SetOrFamily, n: int) -> None:
    values, reference = np.arange(float(n)), np.full(n, 1.0 / n)
    off = np.append(reference[:-1], reference[-1] + 2e-3)
    negative = np.append(reference[2:], [-0.1, 0.1 + 2.0 / n])
    for wrong in (np.full(n, np.nan), np.full(n, np.inf), values[:-1], np.float64(1.0), np.ones((n, n + 1))):
        with pytest.raises(ValueError, match="values"):
            ambiguity.worst_case(wrong, reference, 0.1)
    for wrong in (off, negative, np.full(n, np.nan), np.append(reference, 0.0)[None, :], np.empty(0)):
        with pytest.raises(ValueError, match="reference"):
            ambiguity.worst_case(values, wrong, 0.1)
        with pytest.raises(ValueError, match="p must"):
            ambiguity.distance(wrong, reference)
        with pytest.raises(ValueError, match="q must"):
            ambiguity.distance(reference, wrong)
    for radius in (-0.1, float("nan"), -float("inf")):
        with pytest.raises(ValueError, match="radius"):
            ambiguity.worst_case(values, reference, radius)
    with pytest.raises(TypeError, match="radius"):
        ambiguity.worst_case(values, reference, "wide")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="values"):
        ambiguity.worst_case(["a"] * n, reference, 0.1)
