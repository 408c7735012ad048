"""Order infinity on a range: each day goes to the worst condition within its reach, exactly and certified."""

import math
from typing import Any

import numpy as np
import pytest

import drbo


def brute_force(opt: Any, action: Any, samples: Any, radius: float, scale: Any, grid: Any) -> float:
    """sum_i p_i min of the lower bound over all points of a grid within the radius of day i."""
    predicted = opt.predict([action] * len(grid), [dict(zip(samples, one, strict=True)) for one in grid])
    days = np.column_stack(list(samples.values()))
    total = 0.0
    for day in days:
        near = np.sqrt((((grid - day) / scale) ** 2).sum(axis=1)) <= radius * (1.0 + 1e-9)
        here = opt.predict(action, dict(zip(samples, day, strict=True))).lower
        total += min(float(predicted.lower[near].min(initial=np.inf)), here) / len(days)
    return total


def told(contexts: Any, radius: float, scale: Any, f: Any) -> Any:
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)),
        contexts,
        ambiguity=drbo.Wasserstein(order=math.inf, scale=scale),
        setting=drbo.Simulator(radius=radius, pick="uncertain"),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.3)), noise=0.05),
    )
    rng = np.random.default_rng(0)
    for _ in range(25):
        c = contexts.within.decode(drbo.spaces.Point(rng.random(contexts.within.dimension)))
        x = float(rng.random())
        opt.tell({"x": x}, f(x, c), context=c)
    return opt


def test_one_column_agrees_with_a_fine_grid() -> None:
    samples = {"t": np.array([1.0, 2.0, 2.5, 6.0, 9.0])}
    contexts = drbo.Samples(samples, within=drbo.Box(t=(0.0, 10.0)), support=8)
    opt = told(contexts, 1.2, {"t": 1.0}, lambda x, c: math.sin(c["t"]) * (1.0 + x))
    for radius in (0.3, 1.2, 4.0, 30.0):
        r = opt.bound({"x": 0.4}, radius=radius)
        grid = np.linspace(0.0, 10.0, 4001)[:, None]
        exact = brute_force(opt, {"x": 0.4}, samples, radius, np.array([1.0]), grid)
        assert r.value <= exact + 1e-9
        assert r.value == pytest.approx(exact, abs=2e-3)
        assert r.gap <= 2e-3
        moved = np.abs(np.array([c["t"] for c in r.contexts])[:, None] - samples["t"])
        assert moved[r.weights > 0.0].min(axis=1).max() <= radius * (1.0 + 1e-9)


def test_two_columns_agree_with_a_fine_grid() -> None:
    rng = np.random.default_rng(1)
    samples = {"a": rng.uniform(0.0, 4.0, 12), "b": rng.uniform(0.0, 1.0, 12)}
    contexts = drbo.Samples(samples, within=drbo.Box(a=(0.0, 4.0), b=(0.0, 1.0)), support=16)
    opt = told(contexts, 0.6, {"a": 1.0, "b": 0.25}, lambda x, c: math.sin(2 * c["a"]) + x * c["b"] - c["b"] ** 2)
    r = opt.bound({"x": 0.7})
    grid = np.stack(np.meshgrid(np.linspace(0, 4, 321), np.linspace(0, 1, 321)), axis=-1).reshape(-1, 2)
    exact = brute_force(opt, {"x": 0.7}, samples, 0.6, np.array([1.0, 0.25]), grid)
    assert r.value <= exact + 1e-9  # certified: nothing on the grid is worse
    assert r.value + r.gap == pytest.approx(exact, abs=5e-3)  # and what was found is as bad
    assert r.gap <= 0.05


def test_labels_of_a_range_are_as_far_as_their_steps() -> None:
    box = drbo.Box(t=(0.0, 1.0), sort=drbo.Categorical("a", "b"))
    contexts = drbo.Samples({"t": [0.2, 0.8], "sort": ["a", "a"]}, within=box, support=8)
    worse = {"a": 0.0, "b": -5.0}
    opt = told(contexts, 0.3, {"t": 1.0, "sort": 1.0}, lambda x, c: worse[c["sort"]] - c["t"] * x)
    near, far = opt.bound({"x": 1.0}, radius=0.3), opt.bound({"x": 1.0}, radius=1.0)
    assert {c["sort"] for c, w in zip(near.contexts, near.weights, strict=True) if w > 0.0} == {"a"}
    assert {c["sort"] for c, w in zip(far.contexts, far.weights, strict=True) if w > 0.0} == {"b"}
    assert near.gap < 0.02


def test_an_optimizer_runs_and_adds_few_contexts() -> None:
    contexts = drbo.Samples({"t": np.linspace(1.0, 9.0, 20)}, within=drbo.Box(t=(0.0, 10.0)), support=8)
    opt = told(contexts, 0.5, {"t": 1.0}, lambda x, c: math.sin(c["t"]) * (1.0 + x))
    for _ in range(6):
        s = opt.ask()
        opt.tell(s, math.sin(s.context["t"]) * (1.0 + s.action["x"]))
    assert all(len(one.further) <= 48 for fact in opt.history if hasattr(fact, "proposals") for one in fact.proposals)
    assert opt.recommend().gap < 0.01


def test_an_intersection_with_bounds_is_certified_too() -> None:
    contexts = drbo.Samples({"t": [2.0, 4.0, 6.0]}, within=drbo.Box(t=(0.0, 10.0)), support=8)
    alone = told(contexts, 1.5, {"t": 1.0}, lambda x, c: math.sin(c["t"]) * (1.0 + x))
    both = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)),
        contexts,
        ambiguity=drbo.Intersection(drbo.Wasserstein(order=math.inf, scale={"t": 1.0}), drbo.Moments(t=0.2)),
        setting=drbo.Simulator(radius=1.5, pick="uncertain"),
        surrogate=alone.configuration.surrogate,
    )
    both.append(alone.to_frame())
    assert both.bound({"x": 0.5}).value >= alone.bound({"x": 0.5}).value - 1e-6
