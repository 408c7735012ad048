"""A box, a learned model and many outcomes: `ask` beside BoTorch's fit and acquisition, in one process, in turn."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from drbo import Box, LearnedGP, Optimizer, Samples, Simulator
from measure import clock
from opponents import HAS_BOTORCH, botorch_fit_and_acquisition
from rows import Row
from world import Array

SIZES = (100, 200, 400, 800)
SAMPLES = 150


def _two(z: Array) -> Array:
    return np.asarray(np.sin(6.0 * z[:, 0]) * np.cos(4.0 * z[:, 1]))


def _six(z: Array) -> Array:
    bumps = np.sin(3.0 * z[:, 0] + 2.0 * z[:, 4]) + np.cos(4.0 * z[:, 1] * z[:, 5]) - (z[:, 2] - z[:, 4]) ** 2
    return np.asarray(bumps + 0.5 * np.sin(5.0 * z[:, 3]))


PROBLEMS: dict[tuple[int, int], Callable[[Array], Array]] = {(1, 1): _two, (4, 2): _six}
"""Functions of the unit cube, by the dimensions of action and context."""


def outcomes(shape: tuple[int, int], count: int, seed: int = 1) -> tuple[Array, Array]:
    """Return points (count, d_x + d_c) of the unit cube and noisy outcomes (count,)."""
    rng = np.random.default_rng(seed)
    z = rng.random((count, sum(shape)))
    return z, PROBLEMS[shape](z) + 0.05 * rng.normal(size=count)


def told(shape: tuple[int, int], z: Array, y: Array) -> Optimizer:
    """Return an optimizer of a box with 150 samples that was told all outcomes."""
    d_x, d_c = shape
    xs, cs = [f"x{i}" for i in range(d_x)], [f"c{i}" for i in range(d_c)]
    past = np.random.default_rng(2).random((SAMPLES, d_c))
    opt = Optimizer(
        Box(dict.fromkeys(xs, (0.0, 1.0))),
        Samples(past, names=cs),
        setting=Simulator(radius=0.1, pick="uncertain"),
        surrogate=LearnedGP(),
    )
    for point, outcome in zip(z.tolist(), y.tolist(), strict=True):
        opt.tell(dict(zip(xs, point[:d_x], strict=True)), outcome, context=dict(zip(cs, point[d_x:], strict=True)))
    return opt


def asks(shape: tuple[int, int], z: Array, y: Array) -> tuple[float, float]:
    """Return the times of an `ask` with a first fit and of the next one, which has one outcome more and no fit."""
    opt = told(shape, z, y)
    start = clock()
    s = opt.ask()
    first = clock() - start
    opt.tell(s, float(y.mean()))
    start = clock()
    opt.ask()
    return first, clock() - start


def answer_rows(quick: bool) -> Iterator[Row]:
    """Return what the answers beyond an `ask` take together: the report, a profile of five radii, a radius in words."""
    shape, count = (4, 2), 100 if quick else 200
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        opt = told(shape, *outcomes(shape, count))
        opt.ask()
        times = {}
        for name, work in (
            ("report", lambda: opt.report(Path(folder) / "report.html")),
            ("profile", lambda: opt.under().profile([0.0, 0.05, 0.1, 0.2, 0.4])),
            ("explain_radius", opt.under().explain_radius),
        ):
            start = clock()
            work()
            times[name] = clock() - start
        note = ", ".join(f"{name} {time:.2g} s" for name, time in times.items())
        name = f"report, profile and explain_radius, 4 + 2 dimensions, {count} outcomes"
        yield Row(name, sum(times.values()), 10.0, note=note)


def box_rows(quick: bool) -> Iterator[Row]:
    """Return `ask` with a first fit and without one, against BoTorch's fit and acquisition on the same outcomes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in PROBLEMS:
            z, y = outcomes(shape, 20)
            asks(shape, z, y)  # loads compiled code
            if HAS_BOTORCH:
                botorch_fit_and_acquisition(z, y, shape[0])
            for count in SIZES[:2] if quick else SIZES:
                z, y = outcomes(shape, count)
                ours, theirs = [], []
                for _ in range(1 if quick else 3):
                    ours.append(asks(shape, z, y))
                    if HAS_BOTORCH:
                        theirs.append(botorch_fit_and_acquisition(z, y, shape[0]))
                first, later = np.min(ours, axis=0).tolist()
                name = f"ask on a box, {shape[0]} + {shape[1]} dimensions, {count} outcomes"
                limit = 1.0 if count == 800 else None
                against: dict[str, float] = {}
                factor, note = None, "BoTorch not installed"
                if theirs:
                    fit, acquisition = np.min(theirs, axis=0).tolist()
                    against, factor = {"BoTorch fit and optimize_acqf": fit + acquisition}, 2.0
                    note = f"of that the fit {fit:.2g} s"
                yield Row(f"{name}, with a first fit", first, limit, against, factor, note)
                yield Row(f"{name}, without a fit", later, limit)
