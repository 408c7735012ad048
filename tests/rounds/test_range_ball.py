"""The worst case over a continuous range of contexts, against the same with many contexts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    Box,
    Categorical,
    Integer,
    Matern,
    Neighbourhood,
    Product,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import WorstCase
from drbo.contexts.nature import Reference
from drbo.kernels import Kernel
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.curve import Curve
from drbo.models.regression import ExactPosterior
from drbo.rounds.range_ball import RangeBall, best_context, make_ball, refine
from drbo.spaces import Point
from drbo.validation import FloatArray
from models.surrogate import cube, random_curve
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES, ROUNDING, SOLVER

FAMILIES: dict[str, Callable[[FloatArray], AmbiguitySet]] = {
    "MMD": lambda c: MMD(c, RBF(0.3)),
    "MMD, rough": lambda c: MMD(c, Matern(0.4, nu=1.5)),
    "TV": lambda _: TotalVariation(),
    "Wasserstein": Wasserstein,
    "Neighbourhood": Neighbourhood,
}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def ball_of(
    family: Callable[[FloatArray], AmbiguitySet],
    atoms: FloatArray,
    reference: FloatArray,
    radius: float,
    box: Box,
    seed: int,
) -> RangeBall:
    """A ball on the range of a box, whose set is put on the atoms in the user's units."""
    nobody = np.empty(0, dtype=np.intp)
    weighted = Reference(atoms, reference, 0.0, nobody, index=None, represented=atoms[:0])
    placed = family(box.measured(atoms)).on(box.measured(atoms), box.scales)
    ball = make_ball(placed, weighted, radius, box, seed, box)
    assert isinstance(ball, RangeBall)
    return ball


@dataclass(frozen=True)
class Refined:
    """What `refine` found: the contexts added, the worst case, and the bound for the whole range."""

    further: FloatArray
    worst_case: WorstCase
    lower_bound: float


def refined(
    curve: Curve,
    atoms: FloatArray,
    reference: FloatArray,
    radius: float,
    box: Box,
    family: Callable[[FloatArray], AmbiguitySet],
    seed: int,
) -> Refined:
    made = refine(ball_of(family, atoms, reference, radius, box, seed), curve, certify=True)
    np.testing.assert_array_equal(made.reference.points[: len(atoms)], atoms)
    np.testing.assert_array_equal(made.reference.weights[: len(atoms)], reference)
    return Refined(made.reference.points[len(atoms) :], made.worst_case, made.lower_bound)


def atoms_of(box: Box, seed: int) -> tuple[FloatArray, FloatArray]:
    return box.sample(16, seed + 100), np.append(np.full(8, 1 / 8), np.zeros(8))


# --- the worst case --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
@every_family
@pytest.mark.parametrize("n", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_no_distribution_on_many_contexts_does_worse(
    family: Callable[[FloatArray], AmbiguitySet], d: int, n: int
) -> None:
    lowered = 0
    for seed in range(4):
        box = cube(d)
        curve, (atoms, reference) = random_curve(box, seed), atoms_of(box, seed)
        made = refined(curve, atoms, reference, 0.2, box, family, seed)
        many = np.concatenate([atoms, made.further, np.random.default_rng(seed).random((n, d))])
        p = np.append(reference, np.zeros(len(many) - 16))
        brute = float(family(box.measured(many)).worst_case(curve(many), p, 0.2).expectation)
        span = np.ptp(curve(many))
        found = float(made.worst_case.expectation)
        assert made.lower_bound <= brute + CLOSED_FORM  # certified
        assert found - 0.005 * span <= brute <= found + CLOSED_FORM  # and found
        assert made.lower_bound >= found - 0.05 * span  # and not far apart
        before = float(family(box.measured(atoms)).worst_case(curve(atoms), reference, 0.2).expectation)
        assert found <= before + CLOSED_FORM
        lowered += int(found < before - 0.01 * span)
    assert lowered  # atoms alone would have missed it


def test_whole_numbers_and_choices_are_exact() -> None:
    box = Box(load=(0.0, 1.0), stages=Integer(0, 4), mode=Categorical("a", "b"))
    parts = box.discrete_parts()
    assert parts is not None
    everything = np.repeat(parts, 200, axis=0)
    everything[:, 0] = np.tile(np.linspace(0.0, 1.0, 200), len(parts))
    for seed in range(3):
        curve, (atoms, reference) = random_curve(box, seed), atoms_of(box, seed)
        made = refined(curve, atoms, reference, 0.3, box, FAMILIES["MMD"], seed)
        for c in made.further:
            np.testing.assert_allclose(box.encode("context", box.decode(Point(c))).coordinates, c, atol=1e-9)
        many = np.concatenate([atoms, everything])
        brute = MMD(box.measured(many), RBF(0.3)).worst_case(
            curve(many), np.append(reference, np.zeros(len(everything))), 0.3
        )
        span = np.ptp(curve(many))
        assert made.lower_bound <= brute.expectation <= made.worst_case.expectation + 1e-3 * span
        assert made.worst_case.expectation <= brute.expectation + 5e-3 * span


def test_too_many_whole_numbers_are_certified_as_if_they_were_free() -> None:
    box = Box(a=Integer(0, 100), b=Integer(0, 100))
    curve, (atoms, reference) = random_curve(box, 0), atoms_of(box, 0)
    made = refined(curve, atoms, reference, 0.2, box, FAMILIES["TV"], 0)
    lowest = curve(np.array([[i / 100, j / 100] for i in range(101) for j in range(101)])).min()
    assert made.lower_bound <= 0.8 * (reference @ curve(atoms)) + 0.2 * lowest + CLOSED_FORM
    assert made.lower_bound >= made.worst_case.expectation - 0.1 * np.ptp(curve(atoms))


def test_a_set_that_stays_on_the_support_is_left_alone() -> None:
    box = cube(2)
    curve, (atoms, reference) = random_curve(box, 0), atoms_of(box, 0)
    made = refined(curve, atoms, reference, 0.5, box, lambda _: KL(), 0)
    assert len(made.further) == 0
    expected = KL().worst_case(curve(atoms), reference, 0.5).lower_bound
    assert made.lower_bound == pytest.approx(float(expected), rel=ROUNDING)


def test_a_broken_bound_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the tangent may be off by, the certificate is not one."""
    box = cube(1)
    honest = [refined(random_curve(box, s), *atoms_of(box, s), 0.2, box, FAMILIES["TV"], s) for s in range(8)]
    monkeypatch.setattr(Curve, "lowest", lambda self, centres, *_: self(centres))
    broken = [refined(random_curve(box, s), *atoms_of(box, s), 0.2, box, FAMILIES["TV"], s) for s in range(8)]
    grid = np.linspace(0.0, 1.0, 20_001)[:, None]
    truth = []
    for s in range(8):
        atoms, reference = atoms_of(box, s)
        values, p = random_curve(box, s)(np.concatenate([atoms, grid])), np.append(reference, np.zeros(len(grid)))
        truth.append(float(TotalVariation().worst_case(values, p, 0.2).expectation))
    assert all(made.lower_bound <= value + CLOSED_FORM for made, value in zip(honest, truth, strict=True))
    assert any(made.lower_bound > value + CLOSED_FORM for made, value in zip(broken, truth, strict=True))


@pytest.mark.slow
def test_no_distribution_does_worse_in_many_cases() -> None:
    """Boxes of all kinds, with a few hundred more contexts, up to what rounding does to the values themselves."""
    boxes = [
        *(cube(d) for d in (1, 2, 3)),
        *(Box(a=Integer(0, 7)), Box(a=(0.0, 1.0), b=Integer(0, 4)), Box(a=(0.0, 1.0), m=Categorical("a", "b", "c"))),
        Box(i=Integer(0, 3), m=Categorical("a", "b"), j=Integer(2, 2)),
    ]
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        box, family = boxes[rng.integers(len(boxes))], list(FAMILIES.values())[rng.integers(len(FAMILIES))]
        scale, radius = 10.0 ** rng.uniform(-1.0, 0.5), rng.choice([1e-6, 1e-3, 0.05, 0.2, 0.5, 2.0, np.inf])
        kernel: Kernel = [RBF(scale), Matern(scale, nu=1.5), Matern(scale)][rng.integers(3)]
        curve = random_curve(box, seed, -float(rng.choice([0.0, 0.5, 2.0, 10.0])), kernel)
        atoms = box.sample(int(rng.choice([1, 3, 16, 60])), seed + 1)
        reference = rng.dirichlet(np.ones(len(atoms)))
        made = refined(curve, atoms, reference, radius, box, family, seed)
        many = np.concatenate([atoms, made.further, box.sample(400, seed + 2)])
        p = np.append(reference, np.zeros(len(many) - len(atoms)))
        brute = family(box.measured(many)).worst_case(curve(many), p, radius)
        assert made.lower_bound <= brute.expectation + 1e-9 * np.ptp(curve(many)), seed


# --- the most uncertain context --------------------------------------------------------------------------------------


def test_the_most_uncertain_context_of_a_box() -> None:
    for seed in range(5):
        box = cube(2)
        curve = random_curve(box, seed)
        atoms, _ = atoms_of(box, seed)
        found = best_context(curve.variance, atoms, box, 1e-10, seed)
        grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 101)] * 2), axis=-1).reshape(-1, 2)
        assert curve.variance(found[None])[0] >= curve.variance(grid).max() - FINITE_DIFFERENCES


def test_ties_go_to_the_first_atom() -> None:
    box = cube(2)
    atoms, _ = atoms_of(box, 0)
    nothing_known = ExactPosterior(GP(Product(RBF(0.4), RBF(0.4)), 0.05), np.empty((0, 1)), atoms).curve(
        np.array([0.5]), 1.0
    )
    np.testing.assert_array_equal(best_context(nothing_known.variance, atoms, box, 1e-10, 0), atoms[0])


# --- the ball of a round ----------------------------------------------------------------------------------------------


def some_ball(seed: int = 0) -> tuple[RangeBall, ExactPosterior]:
    rng = np.random.default_rng(seed)
    box = cube(2)
    atoms, weights = atoms_of(box, seed)
    posterior = ExactPosterior(GP(Product(RBF(0.4), RBF(0.4)), 0.05), np.empty((0, 1)), atoms)
    for c in box.sample(25, seed):
        posterior = posterior.with_outcome(rng.random(1), c, np.sin(4 * c.sum() + seed) + 0.3 * rng.normal())
    return ball_of(FAMILIES["MMD"], atoms, weights, 0.2, box, seed), posterior


def test_a_certificate_is_for_the_whole_range() -> None:
    ball, posterior = some_ball()
    action, bound = Point(np.array([0.5])), Bound(posterior, 2.0, LOWER)
    made = ball.certificate(bound, action)
    expected = refine(ball, posterior.curve(action.coordinates, -2.0), certify=True)
    assert made.lower_bound == pytest.approx(expected.lower_bound, rel=SOLVER)
    np.testing.assert_allclose(made.reference.points, expected.reference.points, atol=SOLVER)
    assert made.lower_bound <= made.worst_case.expectation


def test_a_ball_is_widened_by_the_contexts_that_carry_weight() -> None:
    ball, posterior = some_ball()
    action, bound = Point(np.array([0.5])), Bound(posterior, 2.0, UPPER)
    on_atoms = float(ball.worst_case(bound.of_action(action)).expectation)
    wider, score = ball.widened(bound, action, on_atoms)
    added = len(wider.contexts) - len(ball.contexts)
    assert added > 0
    np.testing.assert_array_equal(wider.contexts[:-added], ball.contexts)
    np.testing.assert_array_equal(wider.weights[-added:], 0.0)
    worst = wider.worst_case(bound.curve(action.coordinates)(wider.contexts))
    assert worst.expectation == pytest.approx(score, abs=1e-7)
    assert score <= on_atoms + CLOSED_FORM
    assert (worst.weights[-added:] > 0.0).all()
    again, _ = wider.widened(bound, action, score)
    assert len(again.contexts) - len(wider.contexts) <= added  # nothing is adopted twice
    assert len(np.unique(again.contexts, axis=0)) == len(again.contexts)


def test_where_contexts_have_no_range_the_atoms_are_all_there_is() -> None:
    ball, _ = some_ball()
    plain = make_ball(ball.ambiguity, ball.reference, 0.2, ball.space, 0, None)
    assert not isinstance(plain, RangeBall)
