"""Calls of drbo's Python functions in asks, and switches between its modules, for the version on the path.

    PYTHONPATH=src python benchmarks/calls.py

A switch is a call in another module than the call before it. docs/architecture.md has the numbers.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from drbo import GP, MMD, RBF, Box, General, LearnedGP, Optimizer, Product, Samples, Simulator, Wasserstein


def modules_of(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the result of a function, and the module of each function of drbo that it calls, in order."""
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        module = frame.f_globals.get("__name__")
        if event == "call" and isinstance(module, str) and module.partition(".")[0] == "drbo":
            found.append(module)

    sys.setprofile(note)
    try:
        return function(), found
    finally:
        sys.setprofile(None)


def on_a_grid() -> list[str]:
    """Return the calls of one ask on 12 actions x 9 contexts, with a fixed GP and MMD, after 12 outcomes."""
    contexts, rng = np.linspace(0.0, 1.0, 9), np.random.default_rng(0)
    opt = Optimizer(
        np.linspace(0.0, 1.0, 12),
        contexts,
        ambiguity=MMD(contexts, RBF(0.2)),
        setting=General(),
        surrogate=GP(Product(RBF(0.2), RBF(0.2)), 0.05),
    )
    terms: dict[str, Any] = {"reference": np.full(9, 1 / 9), "radius": 0.1}
    for _ in range(12):
        opt.tell(opt.ask(**terms), float(rng.normal()), context_index=int(rng.integers(9)))
    return modules_of(lambda: opt.ask(**terms))[1]


def on_a_box(**options: Any) -> list[str]:
    """Return the calls of the first 14 asks on a box of two parameters with 80 samples, learned, Wasserstein."""
    rng = np.random.default_rng(0)
    opt = Optimizer(
        Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        Samples(rng.random((80, 1)), names=["c"]),
        ambiguity=Wasserstein(),
        setting=Simulator(radius=0.1, **options),
        surrogate=LearnedGP(),
    )
    calls: list[str] = []
    for _ in range(14):
        s, new = modules_of(opt.ask)
        calls += new
        x, y, c = s.action["x"], s.action["y"], s.contexts[0]["c"]
        opt.tell(s, float(np.sin(6 * x) * np.cos(4 * c) + x * y + 0.05 * rng.normal()))
    return calls


def main() -> None:
    """Print the counts."""
    for name, calls in (
        ("one ask on a grid", on_a_grid()),
        ('14 asks on a box, pick="uncertain"', on_a_box(pick="uncertain")),
        ("14 asks on a box, default policy", on_a_box()),
    ):
        switches = sum(one != other for one, other in itertools.pairwise(calls))
        print(f"{name}: {len(calls):,} calls, {switches:,} switches between modules")


if __name__ == "__main__":
    main()
