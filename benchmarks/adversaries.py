"""Hard worst cases: dense optima, contexts in two and three dimensions, batches beside one pricing pass; transport."""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from scipy.optimize import linprog

from drbo import GP, MMD, RBF, General, Matern, Optimizer, Product, Wasserstein
from drbo.ambiguity._mmd_atoms import embed, price_all
from instances import worst_cases
from measure import best_of, clock
from opponents import cvxpy_clarabel
from rows import EQUAL, Row
from world import Array, SamplePath, gaussian, grid


def adversary_rows(quick: bool) -> list[Row]:
    """Return all rows of this module."""
    return [*_dense_rows(quick), *_plane_rows(quick), *_cube_rows(quick), *_pricing_rows(quick), *_transport_rows()]


def _compare(name: str, mmd: MMD, values: Array, reference: Array, radius: float) -> float:
    """Raise unless CVXPY with Clarabel finds our optimum; return its time."""
    solve = cvxpy_clarabel(mmd.placed.features, reference, radius)
    start = clock()
    theirs = solve(values)
    seconds = clock() - start
    difference = abs(theirs - float(mmd.worst_case(values, reference, radius).expectation)) / np.ptp(values)
    if not difference <= EQUAL:
        raise AssertionError(f"CVXPY + Clarabel differs by {difference:.2g} of the range at {name}")
    return seconds


def _dense_rows(quick: bool) -> list[Row]:
    """Return a rough kernel on a line, for which hundreds of contexts carry weight."""
    n, radius = 1000, 0.1
    contexts, found = grid(n), []
    f = SamplePath(np.random.default_rng(0))
    values = np.array([[f(x, c) for c in contexts] for x in grid(3)])
    mmd = MMD(contexts, Matern(0.1, nu=1.5))
    normal = gaussian(contexts, 0.5, 0.05)
    references = {"uniform reference": (np.full(n, 1.0 / n), 50e-3), "normal reference": (normal, None)}
    for name, (p, limit) in references.items():
        work = f"one worst case, Matern 3/2 of 0.1, n={n} on a line, radius {radius}, {name}"
        opponents = {} if quick else {"CVXPY + Clarabel": _compare(work, mmd, values[1], p, radius)}
        ours = max(best_of(partial(mmd.worst_case, v, p, radius), 5) for v in values)
        active = int((mmd.worst_case(values[1], p, radius).weights > 0.0).sum())
        found.append(Row(work, ours, limit, opponents, note=f"{active} contexts carry weight"))
    return found


def _plane(side: int) -> Array:
    return np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, side)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)


def _waves(points: Array, count: int, lengthscale: float) -> Array:
    """Return `count` smooth functions of points (n, d), (count, n)."""
    rng = np.random.default_rng(0)
    frequencies, phases = rng.normal(size=(points.shape[1], 300)) / lengthscale, 2.0 * np.pi * rng.random(300)
    found = rng.normal(size=(count, 300)) @ np.cos(points @ frequencies + phases).T * np.sqrt(2.0 / 300)
    return np.asarray(found, dtype=np.float64)


def _normal(points: Array, mean: float, deviation: float) -> Array:
    p = np.exp(-0.5 * ((points - mean) ** 2).sum(axis=1) / deviation**2)
    return np.asarray(p / p.sum(), dtype=np.float64)


def _plane_rows(quick: bool) -> list[Row]:
    """Return 10,000 contexts in the plane; the optimum is compared on 400 of them, which is what CVXPY can do."""
    small = _plane(20)
    _compare("400 contexts in the plane", MMD(small, RBF(0.1)), _waves(small, 1, 0.2)[0], _normal(small, 0.5, 0.1), 0.2)
    side = 30 if quick else 100
    contexts = _plane(side)
    values = _waves(contexts, 3, 0.2)
    setup = best_of(lambda: MMD(contexts, RBF(0.1)), 2, warm_up=False)
    mmd = MMD(contexts, RBF(0.1))
    name, note = f"{side**2:,} contexts in the plane, RBF(0.1)", f"rank {mmd.placed.features.shape[1]}"
    found = [Row(f"{name}: set-up", setup, 0.5, note=note)]
    normal, flat = _normal(contexts, 0.5, 0.1), np.full(side**2, 1.0 / side**2)
    radius = mmd.distance(normal, _normal(contexts, 0.45, 0.15))
    for kind, p, eps in (("normal reference", normal, radius), ("uniform reference, radius 0.05", flat, 0.05)):
        ours = max(best_of(partial(mmd.worst_case, v, p, eps), 1 if quick else 3) for v in values)
        active = int((mmd.worst_case(values[0], p, eps).weights > 0.0).sum())
        found.append(Row(f"{name}: one worst case, {kind}", ours, 50e-3, note=f"{active} contexts carry weight"))
    return found


def _cube_rows(quick: bool) -> list[Row]:
    """Return whole rounds on 100 actions and 1,000 contexts in three dimensions."""
    rng = np.random.default_rng(0)
    contexts, actions = rng.random((300 if quick else 1000, 3)), grid(100)
    mmd = MMD(contexts, RBF(0.2))
    reference = _normal(contexts, 0.5, 0.2)
    radius = mmd.distance(reference, _normal(contexts, 0.45, 0.25))
    if not quick:
        _compare("1,000 contexts in three dimensions", mmd, _waves(contexts, 1, 0.3)[0], reference, radius)
    surrogate = GP(Product(RBF(0.2), RBF(0.4)), 0.05)
    opt = Optimizer(actions, contexts, ambiguity=mmd, setting=General(), surrogate=surrogate, beta=2.0)
    truth = _waves(contexts, 100, 0.3)
    times = []
    for _ in range(20 if quick else 60):
        start = clock()
        s = opt.ask(reference=reference, radius=radius)
        asked = clock() - start
        j = int(rng.choice(len(contexts), p=reference))
        start = clock()
        opt.tell(s, float(truth[s.action_index, j] + 0.05 * rng.normal()), context_index=j)
        times.append(asked + clock() - start)
    note = f"rank {mmd.placed.features.shape[1]}; the median of the last third of {len(times)} rounds"
    work = f"whole round, 100 actions x {len(contexts):,} contexts in three dimensions, RBF(0.2)"
    return [Row(work, float(np.median(times[-len(times) // 3 :])), 10e-3, note=note)]


@numba.njit
def _passes(d, bt, y, cost, count):  # type: ignore[no-untyped-def]  # numba's own types
    for _ in range(count):
        price_all(d, bt, y, True, cost)


def _pricing_rows(quick: bool) -> list[Row]:
    """Return how many pricing passes a row of a batch takes: no certified row takes less than one."""
    found = []
    for n in (30, 100, 300, 1000):
        instance = worst_cases(n)
        given = (instance.reference, instance.radius)
        _, bt, _ = embed(instance.reference, instance.mmd.placed.features)
        d, cost = np.append(instance.values[0], 0.0), np.empty(n + 1)
        count = 1000
        one = best_of(partial(_passes, d, bt, np.ones(len(bt)), cost, count), 10 if quick else 50) / count
        ours = best_of(partial(instance.mmd.worst_case, instance.values, *given), 10 if quick else 100) / 100
        note = f"{1e6 * ours:.2f} us per row, {1e6 * one:.2f} us per pass"
        found.append(Row(f"batch of 100, n={n}: pricing passes per row", ours / one, 5.0, note=note, unit=""))
    return found


def _transport_rows() -> list[Row]:
    """Return a Wasserstein distance in the plane; it is compared with HiGHS on 60 contexts."""
    rng = np.random.default_rng(0)
    found = {}
    for n in (60, 1000):
        contexts = rng.random((n, 2))
        p, q = rng.dirichlet(np.ones(n), 2)
        ball = Wasserstein(contexts)
        found[n] = best_of(partial(ball.distance, p, q), 3)
        if n == 60:
            cost = np.linalg.norm(contexts[:, None] - contexts, axis=2)
            rows = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
            start = clock()
            theirs = float(linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([p, q])).fun or np.nan)
            seconds = clock() - start
            if not abs(theirs - ball.distance(p, q)) <= EQUAL:
                raise AssertionError("HiGHS differs in the Wasserstein distance")
    note = f"60 contexts: {1e3 * found[60]:.2g} ms, HiGHS {1e3 * seconds:.0f} ms"
    return [Row("Wasserstein.distance in the plane, n=1000", found[1000], 0.3, note=note)]
