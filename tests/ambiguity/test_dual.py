"""What a set says of contexts that it does not have, against the same set with them."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ambiguity.contract import AGES, one_scenario
from drbo import (
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    ChiSquare,
    CVaR,
    Expectation,
    Intersection,
    Matern,
    Moments,
    Neighbourhood,
    Shares,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import Divergence, Dual
from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.ambiguity.placed import on_range, peak
from drbo.kernels import Kernel
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM

Family = Callable[[FloatArray], SetOrFamily]
REACHING: dict[str, Family] = {
    "MMD, RBF": lambda c: MMD(c, RBF(0.3)),
    "MMD, Matern": lambda c: MMD(c, Matern(0.4, nu=1.5)),
    "TV": lambda _: TotalVariation(),
    "Wasserstein": Wasserstein,
    "Wasserstein, order 2, largest coordinate": lambda c: Wasserstein(c, order=2.0, norm=math.inf),
    "Wasserstein, order 4": lambda c: Wasserstein(c, order=4.0),
    "Neighbourhood": Neighbourhood,
}
IN_WORDS: dict[str, Family] = {
    "Moments": Moments([0.2, 0.3]).on,
    "Shares": Shares(old=(0.2, 0.5), free_inside=True).with_columns(AGES).on,
    "AnyOf": lambda c: one_scenario(c, 12, MMD(kernel=RBF(0.3))).on(c),
    "Intersection": Intersection(MMD(kernel=RBF(0.3)), Moments([0.1, 0.1])).on,
    "Intersection of bounds": Intersection(
        Moments([0.1, 0.1]), Shares(old=(0.1, 0.9), free_inside=True).with_columns(AGES)
    ).on,
    "Wasserstein, scaled": lambda c: Wasserstein(c, scale=[0.5, 2.0]),
}
"""Sets in the user's words. Some of them use further contexts at radius 0, too."""
ALL = REACHING | IN_WORDS
RADII = [1e-6, 0.05, 0.3, 1.0, math.inf]


def instance(seed: int, n: int = 12, d: int = 2) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Contexts, a reference that leaves some of them out, and values, all random."""
    rng = np.random.default_rng(seed)
    reference = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.7)
    reference[0] += 0.1
    return rng.random((n, d)), reference / reference.sum(), rng.normal(size=n)


def dual_of(ambiguity: SetOrFamily, values: FloatArray, reference: FloatArray, radius: float) -> Dual | None:
    return on_range(as_placed(ambiguity)).dual(
        values, reference, radius, ambiguity.worst_case(values, reference, radius)
    )


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("family", ALL.values(), ids=ALL.keys())
def test_the_dual_certifies_what_the_solver_does(family: Family, radius: float) -> None:
    for seed in range(20):
        contexts, reference, values = instance(seed)
        ambiguity = family(contexts)
        worst = ambiguity.worst_case(values, reference, radius)
        dual = on_range(as_placed(ambiguity)).dual(values, reference, radius, worst)
        assert dual is not None
        assert worst.expectation - 1e-7 * np.ptp(values) <= dual.bound <= worst.expectation + CLOSED_FORM
        at_contexts = dual.threshold(contexts, np.zeros_like(contexts))[0]
        assert (values >= at_contexts - 1e-9).all()  # those it has can do no further harm


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("family", ALL.values(), ids=ALL.keys())
def test_further_contexts_do_no_more_harm_than_the_dual_says(family: Family, radius: float) -> None:
    lowered = 0
    for seed in range(20):
        contexts, reference, values = instance(seed)
        rng = np.random.default_rng([seed, 1])
        more, their_values = rng.random((5, 2)), rng.normal(size=5) - 0.5
        dual = dual_of(family(contexts), values, reference, radius)
        assert dual is not None
        threshold = dual.threshold(more, np.zeros_like(more))[0]
        excess = np.minimum(their_values - threshold, 0.0).min()
        everything = family(np.concatenate([contexts, more])).worst_case(
            np.append(values, their_values), np.append(reference, np.zeros(5)), radius
        )
        assert everything.expectation >= dual.bound + dual.share * excess - 1e-9
        if excess == 0.0 and family is not Neighbourhood:  # whose nearest context may be another one now
            alone = family(contexts).worst_case(values, reference, radius)
            assert everything.expectation == pytest.approx(float(alone.expectation), abs=1e-7)
        lowered += excess < 0.0
    assert lowered > 0


@pytest.mark.parametrize("family", ALL.values(), ids=ALL.keys())
def test_the_threshold_of_a_cell_bounds_that_of_its_points(family: Family) -> None:
    contexts, reference, values = instance(3)
    dual = dual_of(family(contexts), values, reference, 0.2)
    assert dual is not None
    rng = np.random.default_rng(0)
    centre, half = rng.random((1, 2)), np.array([[0.2, 0.05]])
    inside = centre + half * rng.uniform(-1.0, 1.0, (2000, 2))
    exact, _ = dual.threshold(inside, np.zeros_like(inside))
    level, slope = dual.threshold(centre, half)
    assert (exact <= level + (inside - centre) @ slope[0] + CLOSED_FORM).all()


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(2.0), Matern(0.4)], ids=repr)
@pytest.mark.parametrize("radius", [1e-15, 1e-12, 1e-9])
def test_the_threshold_of_a_cell_holds_where_the_factorization_is_too_coarse(kernel: Kernel, radius: float) -> None:
    """The shift of so small a ball is lost in what the features miss of the kernel, but not its price."""
    for seed in range(8):
        contexts, reference, values = instance(seed, n=40)
        dual = dual_of(MMD(contexts, kernel), values, reference, radius)
        assert dual is not None
        rng = np.random.default_rng(seed)
        for width in (1e-6, 1e-3, 0.3):
            centre, half = rng.random((1, 2)), width * rng.random((1, 2))
            inside = centre + half * rng.choice([-1.0, 1.0], (100, 2))
            level, slope = dual.threshold(centre, half)
            exact, _ = dual.threshold(inside, np.zeros_like(inside))
            assert (exact <= level + (inside - centre) @ slope[0] + CLOSED_FORM).all()


def test_a_context_on_the_border_of_a_neighbourhood_counts() -> None:
    """0.4 - 0.3 is a little more than 0.1: what the solver counts as inside, the price list must."""
    dual = dual_of(Neighbourhood([[0.3]]), np.zeros(1), np.ones(1), 0.1)
    assert dual is not None
    everything = Neighbourhood([[0.3], [0.4]]).worst_case([0.0, -1.0], [1.0, 0.0], 0.1)
    assert everything.expectation == -1.0
    assert dual.threshold(np.array([[0.4]]), np.zeros((1, 1)))[0][0] == 0.0
    assert dual.threshold(np.array([[0.45]]), np.array([[0.05]]))[0][0] == 0.0


def test_a_set_that_says_nothing_of_further_contexts_is_refused() -> None:
    class OwnSet(Divergence):
        def _distance(self, p: FloatArray, q: FloatArray) -> float:
            return float(np.abs(p - q).max())

        def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
            del radius
            return np.broadcast_to(reference, values.shape), values @ reference

    with pytest.raises(TypeError, match="has no `dual`"):
        dual_of(OwnSet(), np.zeros(2), np.full(2, 0.5), 0.1)


@pytest.mark.parametrize("ambiguity", [Expectation(), KL(), ChiSquare(), CVaR()], ids=repr)
def test_sets_that_stay_on_the_support_use_no_further_context(ambiguity: AmbiguitySet) -> None:
    _, reference, values = instance(0)
    assert dual_of(ambiguity, values, reference, 0.3) is None


@pytest.mark.parametrize("family", list(REACHING.values())[:-1], ids=list(REACHING)[:-1])
def test_at_radius_zero_no_set_does(family: Family) -> None:
    contexts, reference, values = instance(0)
    assert dual_of(family(contexts), values, reference, 0.0) is None


@pytest.mark.parametrize("ambiguity", [MMD(gram=np.eye(3)), Wasserstein(cost=1.0 - np.eye(3))], ids=repr)
def test_a_matrix_says_nothing_of_further_contexts(ambiguity: AmbiguitySet) -> None:
    with pytest.raises(TypeError, match="a set that knows where its contexts lie"):
        dual_of(ambiguity, np.arange(3.0), np.full(3, 1 / 3), 0.1)


def test_degenerate_values() -> None:
    """P1: on some processors 0.1 gave 99999999.99999999 for 1e8, and was compared to the last bit."""
    contexts, reference, _ = instance(0)
    cases: list[FloatArray] = [np.zeros(12), np.eye(12)[0], np.full(12, 1e8), 1e-12 * np.arange(12.0)]
    for values in cases:
        for family in ALL.values():
            dual = dual_of(family(contexts), values, reference, 0.1)
            worst = family(contexts).worst_case(values, reference, 0.1)
            assert dual is not None
            rounding = 4.0 * np.spacing(np.abs(values).max())  # of numbers of this size
            tolerance = 1e-7 * max(np.ptp(values), 1e-8) + rounding
            assert dual.bound == pytest.approx(float(worst.expectation), rel=0.0, abs=tolerance)


@pytest.mark.parametrize("offset", [0.0, 1e2, -1e5, 1e8, -1e8])
@pytest.mark.parametrize("family", ALL.values(), ids=ALL.keys())
def test_an_offset_of_the_values_is_one_of_the_price_list(family: Family, offset: float) -> None:
    """The bound never exceeds what is attained, and all is as accurate as numbers of this size are."""
    ulp = np.spacing(max(abs(offset), 1.0))
    for seed in range(40):
        contexts, reference, values = instance(seed)
        values = (offset + values) - offset  # so that adding the offset is exact
        ambiguity = family(contexts)
        more = np.random.default_rng([seed, 2]).random((5, 2))
        for radius in RADII:
            plain, moved = (dual_of(ambiguity, v, reference, radius) for v in (values, offset + values))
            assert plain is not None
            assert moved is not None
            assert moved.bound <= ambiguity.worst_case(offset + values, reference, radius).expectation
            assert abs(moved.bound - (offset + plain.bound)) <= 8.0 * ulp
            for points in (contexts, more):
                here = np.zeros_like(points)
                level, of_plain = moved.threshold(points, here)[0], plain.threshold(points, here)[0]
                reached = np.isfinite(of_plain)
                assert (np.isfinite(level) == reached).all()
                size = np.spacing(np.maximum(np.abs(of_plain[reached]), max(abs(offset), 1.0)))
                assert (np.abs(level[reached] - (offset + of_plain[reached])) <= 8.0 * size).all()


def test_peak_of_concave_functions() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        heights, slopes = rng.normal(size=8), rng.normal(size=8)
        slopes[0] = -1.0 - rng.random()

        def line(s: float, heights: FloatArray = heights, slopes: FloatArray = slopes) -> tuple[float, float]:
            i = int(np.argmin(heights + s * slopes))
            return float(heights[i] + s * slopes[i]), float(slopes[i])

        last = int(np.argmin(slopes))
        found = peak(line, (float(heights[last]), float(slopes[last])))
        grid = np.linspace(0.0, 20.0, 20_001)
        brute = (heights[:, None] + slopes[:, None] * grid).min(axis=0).max()
        assert line(found)[0] >= brute - CLOSED_FORM
