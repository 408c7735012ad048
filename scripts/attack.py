"""A million random worst cases over all sets, each checked: `make attack`, or `python scripts/attack.py --cases 10000`.

A case is one vector of values. Contexts, references, radii, kernels and values are drawn to be awkward: duplicates and
clusters, weights of zero and of 1e-15, radii from 0 to inf, ties, offsets to 1e12, scales from 1e-12. Checked for each:

    feasible    the weights are a distribution within the radius of the reference
    attained    the expectation is that of the weights, in long double, but for their sum, which is 1 up to 1e-12
    certified   the lower bound is below the expectation, by no more than 1e-8 of the values' range
    oracle      on a sample, CVXPY finds no worse distribution, and none as bad where the bound says so

What rounding alone can do is allowed: some units in the last place of the largest value. Prints one row per set.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import cvxpy as cp
import joblib
import numpy as np
from numpy.typing import NDArray

import drbo
from drbo.ambiguity import PlacedSet, WorstCaseError
from drbo.ambiguity.any_of import PlacedAnyOf
from drbo.ambiguity.intersection import PlacedIntersection
from drbo.ambiguity.mmd import KernelMMD, PlacedMMD
from drbo.ambiguity.moments import PlacedMoments
from drbo.ambiguity.neighbourhood import PlacedNeighbourhood
from drbo.ambiguity.wasserstein import PlacedWasserstein

Array = NDArray[np.float64]

GAP, FEASIBLE, ORACLE = 1e-8, 2e-6, 2e-5
"""Tolerances: of the gap and of CVXPY as a share of the values' range, of the distance as a share of the radius."""
ROUNDING = 64.0 * float(np.finfo(float).eps)
BATCH = 50
"""Value vectors per instance."""


@dataclass(frozen=True, eq=False)
class Instance:
    """Contexts (n, d), a reference (n,) on them, values (m, n), and a radius."""

    contexts: Array
    reference: Array
    values: Array
    radius: float


@dataclass
class Tally:
    """What happened to the cases of one set."""

    cases: int = 0
    instances: int = 0
    oracles: int = 0
    seconds: float = 0.0
    outside: float = 0.0
    gap: float = 0.0
    off: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count the other's cases, too."""
        self.cases += other.cases
        self.instances += other.instances
        self.oracles += other.oracles
        self.seconds += other.seconds
        self.outside, self.gap = max(self.outside, other.outside), max(self.gap, other.gap)
        self.off = max(self.off, other.off)
        self.wrong += other.wrong


# --- awkward instances ----------------------------------------------------------------------------------------------


def contexts(rng: np.random.Generator, n: int) -> Array:
    """Return n contexts in one to three dimensions: spread, on a grid, in clusters, or many times the same."""
    d = int(rng.integers(1, 4))
    kind = rng.integers(5)
    if kind == 0:
        points = np.linspace(0.0, 1.0, n)[:, None] ** rng.choice([1.0, 3.0])
    elif kind == 1:
        points = rng.integers(0, max(2, round(n ** (1 / d))), (n, d)) / 10.0  # many are equal
    elif kind == 2:
        points = rng.random((max(1, n // 10), d))[rng.integers(0, max(1, n // 10), n)] + 1e-9 * rng.random((n, d))
    else:
        points = rng.random((n, d))
    return np.asarray(points * 10.0 ** rng.choice([0.0, 0.0, -3.0, 3.0]))


def reference(rng: np.random.Generator, n: int) -> Array:
    """Return weights (n,): equal, random, mostly zero, one atom, or with some that are tiny."""
    kind = rng.integers(5)
    if kind == 0:
        return np.full(n, 1.0 / n)
    weights = rng.exponential(size=n)
    if kind == 1:
        weights *= rng.random(n) < 0.3
    if kind == 2:
        weights[rng.random(n) < 0.5] *= 1e-15
    if kind == 3 or not weights.sum() > 0.0:
        weights = np.eye(n)[rng.integers(n)]
    return np.asarray(weights / weights.sum())


def values(rng: np.random.Generator, points: Array) -> Array:
    """Return value vectors (m, n): noise, smooth, tied, constant or with a spike, at any offset and scale."""
    n = len(points)
    kind = rng.integers(5)
    if kind == 0:
        v = rng.standard_normal((BATCH, n))
    elif kind == 1:
        phase = points @ rng.standard_normal((points.shape[1], BATCH)) / (np.ptp(points) or 1.0)
        v = np.sin(4.0 * phase.T)
    elif kind == 2:
        v = rng.integers(0, 3, (BATCH, n)).astype(float)
    elif kind == 3:
        v = np.zeros((BATCH, n))
        v[np.arange(BATCH), rng.integers(0, n, BATCH)] = -1.0
    else:
        v = np.repeat(rng.standard_normal((BATCH, 1)), n, axis=1)
    scale = 10.0 ** rng.choice([0.0, 0.0, -12.0, -6.0, 6.0])
    offset = rng.choice([0.0, 0.0, 1.0, 1e6, 1e12]) * rng.choice([-1.0, 1.0])
    return np.asarray(scale * v + offset)


def radius(rng: np.random.Generator, placed: PlacedSet, p: Array) -> float:
    """Return a radius from 0 to inf: often between 1e-12 and all of the diameter."""
    kind = rng.integers(8)
    if kind < 2:
        return (0.0, math.inf)[kind]
    diameter = placed.diameter(p)
    size = diameter if 0.0 < diameter < math.inf else 1.0
    if kind == 2:
        return float(size * rng.choice([1.0, 2.0]))
    return float(size * 10.0 ** rng.uniform(-12.0 if kind == 3 else -3.0, 0.0))


def kernel(rng: np.random.Generator, points: Array) -> drbo.kernels.Kernel:
    """Return a kernel with a lengthscale from a hundredth to ten times the contexts' range."""
    length = float((np.ptp(points) or 1.0) * 10.0 ** rng.uniform(-2.0, 1.0))
    nu = rng.choice([0.0, 0.0, 1.5, 2.5])
    return drbo.RBF(length) if nu == 0.0 else drbo.Matern(length, nu=float(nu))


def semi_definite(rng: np.random.Generator, n: int) -> PlacedSet:
    """Return the set of a Gram matrix of low rank, with negative entries."""
    features = rng.standard_normal((n, int(rng.integers(1, min(n, 8) + 1))))
    return drbo.MMD(gram=features @ features.T).placed


def words(rng: np.random.Generator, points: Array) -> PlacedSet:
    """Return bounds on the mean of every column."""
    widths = [float(w or 1.0) * 10.0 ** rng.uniform(-3.0, 0.0) for w in np.ptp(points, axis=0)]
    return placed(drbo.Moments(widths), points)


def both(rng: np.random.Generator, points: Array) -> PlacedSet:
    """Return a ball in which the mean of every column is bounded, too."""
    widths = [float(w or 1.0) * 10.0 ** rng.uniform(-2.0, 0.0) for w in np.ptp(points, axis=0)]
    ball = (drbo.TotalVariation(), drbo.KL(), drbo.MMD(kernel=kernel(rng, points)))[rng.integers(3)]
    return placed(drbo.Intersection(ball, drbo.Moments(widths)), points)


def scenarios(rng: np.random.Generator, points: Array) -> PlacedSet:
    """Return one of a few references, each with a ball round it."""
    several = [reference(rng, len(points)) for _ in range(int(rng.integers(1, 4)))]
    within = (None, drbo.TotalVariation(), drbo.MMD(kernel=kernel(rng, points)))[rng.integers(3)]
    return placed(drbo.AnyOf(several, within=within), points)


def placed(configured: drbo.AmbiguitySet, points: Array) -> PlacedSet:
    """Put a set on contexts."""
    spread = np.ptp(points, axis=0)
    return configured.on(points, np.where(spread > 0.0, spread, 1.0))


SETS: dict[str, tuple[Callable[[np.random.Generator, Array], PlacedSet], int, float]] = {
    "MMD": (lambda rng, c: drbo.MMD(c, kernel(rng, c)).placed, 1000, 0.25),
    "MMD, Gram matrix": (lambda rng, c: semi_definite(rng, len(c)), 300, 0.08),
    "TotalVariation": (lambda *_: drbo.TotalVariation(), 1000, 0.12),
    "KL": (lambda *_: drbo.KL(), 1000, 0.12),
    "ChiSquare": (lambda *_: drbo.ChiSquare(), 1000, 0.12),
    "CVaR": (lambda *_: drbo.CVaR(), 1000, 0.08),
    "Wasserstein": (lambda _, c: drbo.Wasserstein().on(c), 300, 0.08),
    "Neighbourhood": (lambda _, c: drbo.Neighbourhood().on(c), 1000, 0.03),
    "Expectation": (lambda *_: drbo.Expectation(), 1000, 0.02),
    "Moments": (words, 300, 0.05),
    "AnyOf": (scenarios, 100, 0.03),
    "Intersection": (both, 60, 0.02),
}
"""How a set is made, the largest number of contexts, and its share of the cases."""


# --- checks ---------------------------------------------------------------------------------------------------------


def oracle(placed: PlacedSet, it: Instance, v: Array) -> float | None:
    """Return CVXPY's worst case of scaled values, for sets and sizes that it solves well; otherwise None."""
    n, p, eps = len(it.reference), it.reference, it.radius
    if n > 40 or not 1e-4 < eps < 1e3:
        return None
    w = cp.Variable(n, nonneg=True)
    rules = [cp.sum(w) == 1.0]
    if isinstance(placed, drbo.TotalVariation):
        rules += [cp.norm1(w - p) <= 2.0 * eps]
    elif isinstance(placed, PlacedMMD):
        rules += [cp.norm(placed.features.T @ (w - p)) <= eps]
    elif isinstance(placed, drbo.CVaR) and eps < 1.0:
        rules += [w <= p / (1.0 - eps)]
    elif isinstance(placed, drbo.ChiSquare | drbo.KL):
        there = p > 1e-9
        if (p[~there] > 0.0).any():
            return None
        rules += [w[~there] == 0.0] if (~there).any() else []
        if isinstance(placed, drbo.KL):
            rules += [cp.sum(cp.rel_entr(w[there], p[there])) <= eps]
        else:
            rules += [cp.norm(cp.multiply(p[there] ** -0.5, w[there] - p[there])) <= math.sqrt(eps)]
    elif isinstance(placed, PlacedWasserstein) and n <= 15:
        plan = cp.Variable((n, n), nonneg=True)
        cost = np.linalg.norm(it.contexts[:, None, :] - it.contexts[None, :, :], axis=2)
        rules += [cp.sum(plan, axis=1) == p, cp.sum(plan, axis=0) == w, cp.sum(cp.multiply(plan, cost)) <= eps]
    else:
        return None
    problem = cp.Problem(cp.Minimize(v @ w), rules)
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    return float(problem.value) if problem.status == cp.OPTIMAL else None


def exact_mmd(kernel: drbo.RBF | drbo.Matern, points: Array, difference: Array) -> float:
    """Return the norm of the embedding of w - p, by the kernel's formula in long double."""
    x, a = points.astype(np.longdouble), difference.astype(np.longdouble)
    r = np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) / np.asarray(kernel.lengthscale, np.longdouble)
    if isinstance(kernel, drbo.RBF):
        gram = np.exp(-(r**2) / 2)
    else:
        s = r * np.sqrt(np.longdouble(2.0 * kernel.nu))
        gram = (1 + s + (s**2 / 3 if kernel.nu == 2.5 else 0)) * np.exp(-s)
    return math.sqrt(max(float(a @ gram @ a), 0.0))


def beyond(moments: drbo.Moments, it: Instance, w: Array, radius: float) -> float:
    """Return how far a mean lies beyond its bounds, in widths, after what the rounding of the contexts may do."""
    shift = np.abs((w - it.reference) @ (it.contexts - it.contexts[0])) - ROUNDING * np.abs(it.contexts).max()
    return float((shift / np.array(moments.widths)).max() - radius)


def outside(placed: PlacedSet, it: Instance, w: Array) -> float:
    """Return how far weights (n,) lie outside of the set, as a share of the radius (of 1e-3 if that is larger)."""
    if isinstance(placed, drbo.Expectation):
        return float(np.abs(w - it.reference).max())
    if isinstance(placed, PlacedNeighbourhood):  # all mass near the mean, or on the context that is nearest to it
        apart = np.linalg.norm(it.contexts - it.reference @ it.contexts, axis=1)
        excess = apart[w > 0.0].max() - max(it.radius, apart.min())
    elif isinstance(placed, PlacedAnyOf) and isinstance(placed.inner, drbo.Expectation):
        return float(min(np.abs(w - one).max() for one in (*placed.weights, it.reference)))
    elif isinstance(placed, PlacedMoments):
        excess = beyond(placed.family, it, w, it.radius)
    elif isinstance(placed, PlacedIntersection):
        excess = placed.inner.distance(w / w.sum(), it.reference) - it.radius
        (moments,) = placed.limits
        assert isinstance(moments, PlacedMoments)  # what `both` draws
        excess = max(excess, beyond(moments.family, it, w, 1.0))
    else:
        excess = placed.distance(w / w.sum(), it.reference) - it.radius
        if isinstance(placed, KernelMMD) and isinstance(placed.kernel, drbo.RBF | drbo.Matern):
            # the docstring of MMD: 1e-7 from the exact kernel
            excess = max(excess, exact_mmd(placed.kernel, it.contexts, w - it.reference) - it.radius - 1e-7)
    return float(max(excess, 0.0) / max(it.radius, 1e-3)) if it.radius < math.inf else 0.0


def check(name: str, seed: int) -> Tally:
    """Draw an instance of a set, solve it, and check every row."""
    make, most, _ = SETS[name]
    rng = np.random.default_rng([sum(name.encode()), seed])
    n = round(math.exp(rng.uniform(0.0, math.log(most))))
    points = contexts(rng, n)
    p = reference(rng, n)
    tally = Tally(instances=1)
    placed = make(rng, points)
    it = Instance(points, p, values(rng, points), radius(rng, placed, p))
    where = f"{name}, seed {seed}: "
    before = time.process_time()
    try:
        worst = placed.worst_case(it.values, p, it.radius)
    except (WorstCaseError, ValueError, ArithmeticError) as error:
        tally.wrong.append(where + repr(error)[:150])
        return tally
    tally.seconds, tally.cases = time.process_time() - before, BATCH
    size, spread = np.abs(it.values).max(axis=1), np.ptp(it.values, axis=1)
    slack = ROUNDING * size
    w = worst.weights
    if not ((w >= 0.0).all() and np.abs(w.sum(axis=1) - 1.0).max() < 1e-12):
        tally.wrong.append(where + "the weights are no distribution")
    base = it.values[:, :1].astype(np.longdouble)  # at an offset of 1e12 the rounding of the sum of weights would show
    attained = (w * (it.values - base)).sum(axis=1) + base[:, 0]
    off = np.abs(attained - worst.expectation).astype(float)
    if (off > slack + 1e-12 * spread).any():
        tally.wrong.append(where + f"the expectation is off by {off.max():.3g} of {size.max():.3g}")
    gap = worst.gap
    if (gap < -slack).any() or (gap > GAP * spread + slack).any():
        tally.wrong.append(where + f"a gap from {gap.min():.3g} to {gap.max():.3g} at a range of {spread.max():.3g}")
    tally.gap = float((np.maximum(gap - slack, 0.0) / np.where(spread > 0.0, spread, 1.0)).max())
    for row in rng.integers(0, BATCH, 2):
        excess = outside(placed, it, w[row])
        tally.outside = max(tally.outside, excess)
        if excess > FEASIBLE:
            tally.wrong.append(where + f"the weights are {excess:.3g} of the radius {it.radius!r} outside of the set")
    if spread[0] > 1e-9 * size[0]:
        found = oracle(placed, it, (it.values[0] - it.values[0].min()) / spread[0])
        if found is not None:
            ours = (float(worst.expectation[0]) - it.values[0].min()) / spread[0]
            tally.oracles, tally.off = 1, abs(found - ours)
            if abs(found - ours) > ORACLE + slack[0] / spread[0]:
                tally.wrong.append(where + f"CVXPY says {found!r}, we say {ours!r}")
    return tally


def some(name: str, seeds: range) -> Tally:
    """Check many instances of a set."""
    tally = Tally()
    for seed in seeds:
        tally.add(check(name, seed))
    return tally


def main() -> None:
    """Attack all sets, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed: another one draws other cases")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count())
    options = parser.parse_args()
    names = [name.strip() for name in options.sets.split(",")] if options.sets != ",".join(SETS) else list(SETS)
    share = sum(SETS[name][2] for name in names)
    print("| set | cases | instances | worst gap | outside | CVXPY | differs by | CPU s | wrong |\n" + "|---" * 9 + "|")
    wrong = 0
    for name in names:
        count = math.ceil(options.cases * SETS[name][2] / share / BATCH)
        parts = [range(options.first + i, options.first + min(i + 100, count)) for i in range(0, count, 100)]
        tally = Tally()
        for part in joblib.Parallel(n_jobs=options.jobs)(joblib.delayed(some)(name, seeds) for seeds in parts):
            tally.add(part)
        print(
            f"| {name} | {tally.cases:,} | {tally.instances:,} | {tally.gap:.1e} | {tally.outside:.1e} | "
            f"{tally.oracles:,} | {tally.off:.1e} | {tally.seconds:.0f} | {len(tally.wrong)} |",
            flush=True,
        )
        for text in tally.wrong[:10]:
            print("    " + text)
        wrong += len(tally.wrong)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
