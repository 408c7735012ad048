"""The worst case over a continuous range of contexts, against the same with thousands of contexts."""

from collections.abc import Callable

import numpy as np
import pytest

from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    Box,
    Categorical,
    Integer,
    Matern,
    Neighbourhood,
    Product,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import AmbiguitySet
from drbo.kernels import Kernel
from drbo.models.gp import Curve
from drbo.rounds.range import best_context, refine
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

KERNELS: list[Kernel] = [RBF(0.3), Matern(0.5), Matern(0.6, nu=1.5), RBF((0.3, 0.7))]
FAMILIES: dict[str, Callable[[FloatArray], AmbiguitySet]] = {
    "MMD": lambda c: MMD(c, RBF(0.3)),
    "MMD, rough": lambda c: MMD(c, Matern(0.4, nu=1.5)),
    "TV": lambda _: TotalVariation(),
    "Wasserstein": Wasserstein,
    "Neighbourhood": Neighbourhood,
}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def random_curve(box: Box, seed: int, beta: float = -2.0, kernel: Kernel | None = None) -> Curve:
    """The bound of one action after 25 noisy outcomes of random functions."""
    rng = np.random.default_rng(seed)
    posterior = GP(Product(RBF(0.4), kernel or RBF(0.4)), 0.05).prior_off_grid(1, np.zeros((1, box.dimension)))
    for c in box.sample(25, seed):
        posterior.observe(rng.random(1), c, np.sin(4 * c.sum() + seed) + 0.3 * rng.normal())
    return posterior.curve(np.array([0.5]), beta)


def cube(d: int) -> Box:
    return Box(**{f"c{i}": (0.0, 1.0) for i in range(d)})


def atoms_of(box: Box, seed: int) -> tuple[FloatArray, FloatArray]:
    return box.sample(16, seed + 100), np.append(np.full(8, 1 / 8), np.zeros(8))


# --- the curve -------------------------------------------------------------------------------------------------------


def test_a_curve_is_the_posterior_of_one_action() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.random((7, 2))
    posterior = GP(Product(RBF(0.4), Matern(0.5)), 0.1).prior_off_grid(1, contexts)
    curves = []
    for _ in range(2):
        curve, x = posterior.curve(np.array([0.3]), -1.5), np.array([[0.3]])
        mean, variance = posterior.over_contexts(x)
        np.testing.assert_allclose(curve(contexts), (mean - 1.5 * np.sqrt(variance))[0], atol=CLOSED_FORM)
        np.testing.assert_allclose(curve.variance(contexts), variance[0], atol=CLOSED_FORM)
        curves.append(curve(contexts))
        for _ in range(5):
            posterior.observe(rng.random(1), rng.random(2), rng.normal())
    assert not np.allclose(curves[0], curves[1])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_bound_over_a_cell_holds_and_is_of_second_order(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    for seed in range(6):
        curve = random_curve(cube(2), seed, kernel=kernel)
        centre, tilt = rng.random((1, 2)), rng.normal(size=(1, 2))
        gaps = []
        for width in (0.2, 0.02):
            half = width * rng.uniform(0.5, 1.0, (1, 2))
            inside = centre + half * rng.uniform(-1.0, 1.0, (4000, 2))
            values = curve(inside) - (inside - centre) @ tilt[0]
            gaps.append(values.min() - curve.lowest(centre, half, tilt)[0])
            assert gaps[-1] >= 0.0
        assert gaps[1] < (0.2 if kernel == KERNELS[2] else 0.1) * gaps[0]  # a tenth of the width


def hard_curve(seed: int) -> tuple[Curve, FloatArray, float]:
    """Any kernel, lengthscale, noise down to the least, duplicates, contradictions, and any width of the bound."""
    rng = np.random.default_rng(seed)
    d, scale, t = int(rng.integers(1, 4)), rng.choice([0.01, 0.1, 0.3, 1.0, 100.0]), int(rng.choice([0, 1, 5, 25, 100]))
    kernel = [RBF(scale), Matern(scale, nu=1.5), Matern(scale, 100.0), RBF((*(scale * rng.uniform(0.3, 3.0, d)),))][
        rng.integers(4)
    ]
    amplitude = np.sqrt(kernel.variance)
    noise = amplitude * rng.choice([1.01e-7, 1e-5, 1e-3, 0.1])
    posterior = GP(Product(RBF(0.4), kernel), noise).prior_off_grid(1, np.zeros((1, d)))
    contexts, x = rng.random((max(t, 1), d)), rng.random(1)
    if rng.random() < 0.5:
        contexts = np.round(4.0 * contexts) / 4.0
    for c in contexts[:t]:
        posterior.observe(x if rng.random() < 0.5 else rng.random(1), c, amplitude * rng.normal())
    beta = float(rng.choice([0.0, -1e-12, -2.0, -50.0, -1e8]))
    return posterior.curve(x, beta), contexts, amplitude * (1.0 - beta)


def check_cells(seeds: range) -> None:
    for seed in seeds:
        curve, contexts, scale = hard_curve(seed)
        rng = np.random.default_rng([seed, 1])
        d = contexts.shape[1]
        centres = np.concatenate([contexts[:3], rng.random((3, d))])
        halves = 10.0 ** rng.uniform(-8.0, -0.3, (len(centres), 1)) * rng.choice([0.0, 0.5, 1.0], (len(centres), d))
        tilts = scale * rng.normal(size=(len(centres), d))
        for centre, half, tilt, low in zip(centres, halves, tilts, curve.lowest(centres, halves, tilts), strict=True):
            inside = centre + half * rng.uniform(-1.0, 1.0, (100, d)).round(int(rng.integers(2)))
            assert low <= (curve(inside) - (inside - centre) @ tilt).min() + 1e-12 * scale, seed


def test_the_bound_over_a_cell_holds_where_rounding_is_all_there_is() -> None:
    """A tiny noise makes products of the size 1e14 cancel: what is left of them must not pass for a small norm."""
    check_cells(range(120))


@pytest.mark.slow
def test_the_bound_over_a_cell_holds_in_many_cases() -> None:
    check_cells(range(1000, 6000))


def test_the_bound_of_what_nobody_knows_is_exact() -> None:
    """Far from all results the lower confidence bound is the prior's, in cells of any size."""
    curve = GP(Product(RBF(0.4), RBF(0.01)), 0.05).prior_off_grid(1, np.zeros((1, 2))).curve(np.array([0.5]), -2.0)
    assert curve.lowest(np.full((1, 2), 0.5), np.full((1, 2), 0.5), np.zeros((1, 2)))[0] == pytest.approx(-2.0)


def test_a_posterior_with_averages_has_no_curve() -> None:
    posterior = GP(Product(RBF(0.4), RBF(0.4)), 0.05).prior_off_grid(1, np.array([[0.0], [1.0]]))
    posterior.anticipate_average(np.array([0.5]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="has no curve"):
        posterior.curve(np.array([0.5]), 1.0)


# --- the worst case --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
@every_family
def test_no_distribution_on_thousands_of_contexts_does_worse(
    family: Callable[[FloatArray], AmbiguitySet], d: int
) -> None:
    lowered = 0
    for seed in range(4):
        box = cube(d)
        curve, (atoms, reference) = random_curve(box, seed), atoms_of(box, seed)
        made = refine(curve, atoms, reference, 0.2, box, family, seed)
        many = np.concatenate([atoms, made.further, np.random.default_rng(seed).random((1500, d))])
        p = np.append(reference, np.zeros(len(many) - 16))
        brute = float(family(many).worst_case(curve(many), p, 0.2).expectation)
        span = np.ptp(curve(many))
        found = float(made.worst_case.expectation)
        assert made.lower_bound <= brute + CLOSED_FORM  # certified
        assert found - 0.005 * span <= brute <= found + CLOSED_FORM  # and found
        assert made.lower_bound >= found - 0.05 * span  # and not far apart
        before = float(family(atoms).worst_case(curve(atoms), reference, 0.2).expectation)
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
        made = refine(curve, atoms, reference, 0.3, box, FAMILIES["MMD"], seed)
        for c in made.further:
            np.testing.assert_allclose(box.encode("context", box.decode(c)), c, atol=1e-9)
        many = np.concatenate([atoms, everything])
        brute = MMD(many, RBF(0.3)).worst_case(curve(many), np.append(reference, np.zeros(len(everything))), 0.3)
        span = np.ptp(curve(many))
        assert made.lower_bound <= brute.expectation <= made.worst_case.expectation + 1e-3 * span
        assert made.worst_case.expectation <= brute.expectation + 5e-3 * span


def test_too_many_whole_numbers_are_certified_as_if_they_were_free() -> None:
    box = Box(a=Integer(0, 100), b=Integer(0, 100))
    curve, (atoms, reference) = random_curve(box, 0), atoms_of(box, 0)
    made = refine(curve, atoms, reference, 0.2, box, FAMILIES["TV"], 0)
    lowest = curve(np.array([[i / 100, j / 100] for i in range(101) for j in range(101)])).min()
    assert made.lower_bound <= 0.8 * (reference @ curve(atoms)) + 0.2 * lowest + CLOSED_FORM
    assert made.lower_bound >= made.worst_case.expectation - 0.1 * np.ptp(curve(atoms))


def test_a_set_that_stays_on_the_support_is_left_alone() -> None:
    box = cube(2)
    curve, (atoms, reference) = random_curve(box, 0), atoms_of(box, 0)
    made = refine(curve, atoms, reference, 0.5, box, lambda _: KL(), 0)
    assert len(made.further) == 0
    assert made.lower_bound == KL().worst_case(curve(atoms), reference, 0.5).lower_bound


def test_a_broken_bound_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the tangent may be off by, the certificate is not one."""
    box = cube(1)
    honest = [refine(random_curve(box, s), *atoms_of(box, s), 0.2, box, FAMILIES["TV"], s) for s in range(8)]
    monkeypatch.setattr(Curve, "lowest", lambda self, centres, *_: self(centres))
    broken = [refine(random_curve(box, s), *atoms_of(box, s), 0.2, box, FAMILIES["TV"], s) for s in range(8)]
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
        made = refine(curve, atoms, reference, radius, box, family, seed)
        many = np.concatenate([atoms, made.further, box.sample(400, seed + 2)])
        p = np.append(reference, np.zeros(len(many) - len(atoms)))
        brute = family(many).worst_case(curve(many), p, radius)
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
    nothing_known = GP(Product(RBF(0.4), RBF(0.4)), 0.05).prior_off_grid(1, atoms).curve(np.array([0.5]), 1.0)
    np.testing.assert_array_equal(best_context(nothing_known.variance, atoms, box, 1e-10, 0), atoms[0])
