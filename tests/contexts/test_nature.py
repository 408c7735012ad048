"""References: atoms and weights of finite sets, samples and boxes, and what compression costs."""

import numpy as np
import pytest

import drbo
from drbo import MMD, RBF, General, Optimizer, Simulator, TotalVariation
from drbo.contexts.nature import Contexts, FiniteContexts, Reference, empirical
from drbo.contexts.sampled_contexts import SPREAD, SampledContexts
from drbo.spaces import FiniteSet, Point
from heating import BOX, FIXED

NONE = np.empty(0, dtype=np.intp)
LINE = FiniteContexts(FiniteSet("contexts", [0.0, 0.5, 1.0]))


def in_order(reference: Reference) -> list[tuple[float, float]]:
    """The atoms of weight, in the order of their position."""
    return sorted((float(p[0]), float(w)) for p, w in zip(reference.points, reference.weights, strict=True) if w > 0.0)


def test_a_finite_set_is_its_own_atoms() -> None:
    reference = LINE.given([0.2, 0.3, 0.5])
    np.testing.assert_array_equal(reference.points, [[0.0], [0.5], [1.0]])
    np.testing.assert_array_equal(reference.weights, [0.2, 0.3, 0.5])
    assert reference.error == 0.0
    assert reference.atom(2).same_as(LINE.encode("context", 1.0))
    own: Contexts = LINE
    assert own.own() is None
    np.testing.assert_array_equal(LINE.given([1, 1, 2]).weights, [0.25, 0.25, 0.5])  # counts
    with pytest.raises(ValueError, match="reference must hold 3 weights"):
        LINE.given([0.5, 0.5])
    with pytest.raises(TypeError, match="reference must be weights, one per context"):
        LINE.given(drbo.Samples([0.1]))  # type: ignore[arg-type]


def test_contexts_seen_are_counted() -> None:
    seen = [LINE.space.at("context_index", i) for i in (1, 1, 2, 0)]
    reference = LINE.seen(seen)
    np.testing.assert_array_equal(reference.weights, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(reference.history, [1, 1, 2, 0])
    np.testing.assert_allclose(LINE.seen([]).weights, 1 / 3)
    np.testing.assert_allclose(empirical(NONE, 4), 0.25)


def test_what_a_simulator_was_made_with() -> None:
    np.testing.assert_array_equal(LINE.chosen(None, np.array([0, 0, 2, 2])).weights, [0.5, 0.0, 0.5])
    both = LINE.chosen(np.array([0.2, 0.3, 0.5]), np.array([0, 1]))
    np.testing.assert_array_equal(both.weights, [0.2, 0.3, 0.5])
    np.testing.assert_array_equal(both.history, [0, 1])
    with pytest.raises(ValueError, match="history must hold indices from 0 to 2"):
        LINE.chosen(None, np.array([3]))


def test_further_atoms_have_no_weight() -> None:
    reference = LINE.given([0.2, 0.3, 0.5])
    assert reference.and_also(np.empty((0, 1))) is reference
    more = reference.and_also(np.array([[0.7], [0.8]]))
    np.testing.assert_array_equal(more.points, [[0.0], [0.5], [1.0], [0.7], [0.8]])
    np.testing.assert_array_equal(more.weights, [0.2, 0.3, 0.5, 0.0, 0.0])
    for array in (more.points, more.weights):
        assert not array.flags.writeable


def test_few_samples_are_all_atoms_and_further_points_follow() -> None:
    samples = drbo.Samples([0.0, 4.0, 4.0, 1.0], support=6)
    reference = SampledContexts(samples, MMD(), seed=3).own()
    assert reference is not None
    assert in_order(reference) == [(0.0, 0.25), (0.25, 0.25), (1.0, 0.5)]
    assert reference.error == 0.0
    assert reference.atom(0).index is None
    np.testing.assert_array_equal(reference.points[reference.history], samples.points)
    np.testing.assert_array_equal(reference.points[3:], samples.space.sample(6, 3))


def test_contexts_seen_count_as_one_sample_each() -> None:
    contexts = SampledContexts(drbo.Samples([0.0, 4.0], weights=[0.25, 0.75]), MMD(), seed=0)
    reference = contexts.seen([contexts.encode("context", 8.0), contexts.encode("context", 0.0)])
    np.testing.assert_allclose(in_order(reference), [(0.0, 0.375), (1.0, 0.375), (2.0, 0.25)])
    np.testing.assert_array_equal(reference.points[reference.history], [[0.0], [1.0], [2.0], [0.0]])
    again = contexts.seen([contexts.encode("context", 8.0), contexts.encode("context", 0.0)])
    assert again is reference  # compressing again would cost a second


def test_other_samples_are_read_in_the_units_of_these() -> None:
    contexts = SampledContexts(drbo.Samples({"a": [0.0, 4.0], "b": [0.0, 2.0]}), MMD(), seed=0)
    reference = contexts.given(drbo.Samples({"b": [1.0, 2.0], "a": [2.0, 8.0]}))
    positions = {tuple(p) for p, w in zip(reference.points.tolist(), reference.weights, strict=True) if w > 0.0}
    assert positions == {(0.5, 0.5), (2.0, 1.0)}
    with pytest.raises(TypeError, match="reference must be Samples"):
        contexts.given([0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="reference must not be given to Simulator: the samples are the reference"):
        contexts.chosen(np.array([0.5, 0.5]), NONE)


def test_where_nothing_was_seen_further_points_share_the_reference() -> None:
    box = drbo.Box(c=(0.0, 1.0))
    contexts = SampledContexts(drbo.Samples([], within=box, support=SPREAD), MMD(), seed=0)
    assert contexts.own() is None
    assert contexts.range is box
    reference = contexts.seen([])
    np.testing.assert_allclose(reference.weights, 1 / SPREAD)
    np.testing.assert_array_equal(reference.points, box.sample(SPREAD, 0))
    after = contexts.seen([Point(np.array([0.3]))])
    assert in_order(after) == [(0.3, 1.0)]
    with pytest.raises(TypeError, match="reference is empty"):
        contexts.given(drbo.Samples([], within=box))
    with pytest.raises(ValueError, match="support must be at least 1 where there are no samples"):
        SampledContexts(drbo.Samples([], within=box, support=0), MMD(), seed=0)


def test_the_error_bounds_the_distance_to_all_samples() -> None:
    """In the user's units, and whatever the kernel: the atoms are samples, so that the samples are all contexts."""
    rng = np.random.default_rng(0)
    samples = drbo.Samples(100.0 * rng.random((400, 2)), atoms=20, support=0)
    for ambiguity in (MMD(), MMD(kernel=RBF(20.0)), MMD(kernel=RBF((5.0, 50.0), 3.0))):
        reference = SampledContexts(samples, ambiguity, seed=0).own()
        assert reference is not None
        assert reference.error > 0.0
        every = np.concatenate([samples.space.measured(samples.points), samples.space.measured(reference.points)])
        placed = ambiguity.on(every, samples.space.scales)
        p = np.append(np.full(400, 1 / 400), np.zeros(len(reference.points)))
        q = np.append(np.zeros(400), reference.weights)
        distance = placed.distance(p, q)
        assert 0.3 * reference.error <= distance <= reference.error


def test_compressed_samples_enlarge_the_radius() -> None:
    rng = np.random.default_rng(0)
    many = drbo.Samples(rng.normal(size=(3000, 2)), atoms=20)
    own = SampledContexts(many, MMD(), seed=0).own()
    assert own is not None
    assert own.error > 0.0
    opt = Optimizer(BOX, many, setting=Simulator(radius=0.2, pick="uncertain"), surrogate=FIXED)
    assert opt.ask().radius == pytest.approx(0.2 + own.error)
    general = Optimizer(BOX, many, setting=General(), surrogate=FIXED)
    assert general.recommend(radius=0.2).radius == general.ask(radius=0.2).radius
    assert general.recommend().radius == pytest.approx(0.2 + own.error)


def test_nothing_but_an_mmd_bounds_what_compression_costs() -> None:
    many = drbo.Samples(np.random.default_rng(0).normal(size=(3000, 2)), atoms=20)
    with pytest.raises(ValueError, match="needs every sample as an atom"):
        Optimizer(
            BOX, many, ambiguity=TotalVariation(), setting=Simulator(radius=0.2, pick="uncertain"), surrogate=FIXED
        )
    few = SampledContexts(drbo.Samples([0.0, 1.0], atoms=2), TotalVariation(), seed=0)
    seen = few.seen([Point(np.array([0.1 * i])) for i in range(1, 8)])
    assert len(in_order(seen)) == 9  # contexts seen are all kept
    assert seen.error == 0.0
