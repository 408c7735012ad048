"""One `ask` takes few steps: calls of Python functions of drbo, as `sys.setprofile` sees them.

Constructors, properties and comprehensions count; compiled functions do not. docs/architecture.md has the numbers.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import drbo

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="compiled functions would count"
)


def calls_of(function: Callable[[], Any]) -> list[str]:
    """Return the names of the functions of drbo that a call of `function` calls, in order."""
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        module = frame.f_globals.get("__name__")
        if event == "call" and isinstance(module, str) and module.partition(".")[0] == "drbo":
            found.append(f"{module}:{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found


def test_calls_properties_and_constructors_count() -> None:
    kernel = drbo.RBF(0.2)
    assert calls_of(lambda: None) == []
    assert "drbo.kernels:RadialKernel.__call__" in calls_of(lambda: kernel(np.zeros((1, 1)), np.ones((2, 1))))
    assert "drbo.validation:positive_float" in calls_of(lambda: drbo.GP(drbo.Product(kernel, kernel), 0.1))


def test_an_ask_on_a_grid_makes_few_calls() -> None:
    contexts, rng = np.linspace(0.0, 1.0, 9), np.random.default_rng(0)
    opt = drbo.Optimizer(
        np.linspace(0.0, 1.0, 12),
        contexts,
        ambiguity=drbo.MMD(contexts, drbo.RBF(0.2)),
        setting=drbo.General(),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.05),
    )
    terms: dict[str, Any] = {"reference": np.full(9, 1 / 9), "radius": 0.1}
    for _ in range(12):
        opt.tell(opt.ask(**terms), float(rng.normal()), context_index=int(rng.integers(9)))
    with threadpool_limits(1, user_api="blas"):  # to limit several threads takes four calls more
        assert len(calls_of(lambda: opt.ask(**terms))) <= 150


def test_an_ask_on_a_box_switches_between_few_modules() -> None:
    """One value with its gradient goes through the bound, the posterior, the kernel, the factor and the set once."""
    past, rng = np.random.default_rng(0).random((80, 1)), np.random.default_rng(1)
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0), y=(0.0, 1.0)),
        drbo.Samples(past, names=["c"]),
        ambiguity=drbo.Wasserstein(),
        setting=drbo.Simulator(radius=0.1, pick="uncertain"),
        surrogate=drbo.LearnedGP(),
    )
    calls: list[str] = []
    for _ in range(8):
        asked: list[Any] = []
        calls += calls_of(lambda: asked.append(opt.ask()))  # noqa: B023
        action, context = asked[0].action, asked[0].contexts[0]
        value = np.sin(6 * action["x"]) * np.cos(4 * context["c"]) + action["x"] * action["y"] + 0.05 * rng.normal()
        opt.tell(asked[0], float(value))
    modules = [name.partition(":")[0] for name in calls]
    switches = sum(one != other for one, other in itertools.pairwise(modules))
    steps = sum(name.endswith(":Objective.score_and_gradient") for name in calls)
    assert steps > 300
    assert switches <= 18 * steps
