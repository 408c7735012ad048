"""What a hostile reader would try: the verdict that each bound must get."""

import math
from typing import Any

import numpy as np
import pytest

import drbo

RANGE = drbo.Box(t=(0.0, 20.0))
BOX = drbo.Box(x=(0.0, 1.0))


def samples(n: int = 15) -> drbo.Samples:
    return drbo.Samples({"t": np.random.default_rng(0).normal(10.0, 1.0, n)}, within=RANGE)


def run(f: Any, n: int = 16, radius: float = 2.0, actions: Any = BOX, noise: float = 0.01) -> drbo.Optimizer:
    ambiguity, setting = drbo.Wasserstein(scale={"t": 1.0}), drbo.Simulator(radius=radius)
    opt = drbo.Optimizer(actions, samples(), ambiguity=ambiguity, setting=setting)
    rng = np.random.default_rng(1)
    for _ in range(n):
        s = opt.ask()
        opt.tell(s, f(s.action["x"], s.context["t"]) + noise * rng.normal())
    return opt


def smooth(x: float, t: float) -> float:
    return -4.0 * (x - 0.3) ** 2 - 0.1 * (t - 10.0) * x


def truth(f: Any, x: float, radius: float) -> float:
    """Return the worst-case expectation on a fine grid of the range, an independent linear program."""
    from scipy.optimize import linprog

    atoms, grid = np.random.default_rng(0).normal(10.0, 1.0, 15), np.linspace(0.0, 20.0, 201)
    cost = np.abs(atoms[:, None] - grid[None, :]).ravel()
    values = np.tile([f(x, t) for t in grid], len(atoms))
    rows = np.kron(np.eye(len(atoms)), np.ones(len(grid)))
    found = linprog(values, A_ub=cost[None], b_ub=[radius], A_eq=rows, b_eq=np.full(len(atoms), 1 / len(atoms)))
    assert found.fun is not None
    return float(found.fun)


def test_a_smooth_function_is_checked_and_its_bound_holds() -> None:
    r = run(smooth, 40).recommend()
    assert r.trust.verdict == "checked", str(r)
    assert r.trust.checks >= 1
    assert "checked" in str(r)
    assert r.value <= truth(smooth, r.action["x"], 2.0) + 1e-6


def test_a_cliff_at_the_edge_of_the_range() -> None:
    def cliff(x: float, t: float) -> float:
        return smooth(x, t) - (6.0 if t > 14.0 and x < 0.6 else 0.0)

    r = run(cliff, 20).recommend()
    held = r.value <= truth(cliff, r.action["x"], 2.0) + 1e-6
    assert held or r.trust.verdict != "checked", str(r)


def test_a_cliff_between_two_evaluated_contexts_cannot_be_known_until_an_outcome_shows_it() -> None:
    """Nothing can be known between two evaluations; the first outcome there refutes the model."""
    opt = run(smooth, 40)
    assert opt.recommend().trust.verdict == "checked"
    r = opt.recommend()
    opt.tell(r.action, -8.0, context={"t": 10.0})
    after = opt.recommend()
    assert after.trust.verdict == "refuted"
    assert str(after).startswith("refuted: ")
    assert "with amend or retract" in " ".join(str(after).split())
    assert opt.bound(r.action).value < r.value


def test_a_function_that_is_flat_for_most_contexts() -> None:
    def flat(x: float, t: float) -> float:
        return -x * max(t - 19.0, 0.0) * 50.0

    r = run(flat, 16, noise=0.001).recommend()
    held = r.value <= truth(flat, r.action["x"], 2.0) + 1e-6
    assert held or r.trust.verdict != "checked", str(r)


def test_a_radius_raised_after_the_run() -> None:
    opt = run(smooth, radius=0.0)
    assert opt.recommend(radius=0.0).trust.verdict == "checked"
    r = opt.recommend(radius=6.0)
    assert r.trust.verdict == "extrapolated"
    text = " ".join(str(r).split())
    assert text.startswith("extrapolated: ")
    assert f"the model's guess is {r.trust.guess:.4g}" in text
    assert f"estimated: at least {r.value:.4g}" in text
    assert "suggestions were for a radius of at most 0, and this is 6" in text
    assert f"to check, evaluate {r.check}" in text


def test_two_optima_of_which_one_is_unexplored() -> None:
    """The bound of the recommended action holds; that a better one exists is not the bound's claim."""

    def two(x: float, t: float) -> float:
        return max(smooth(x, t), 3.0 - 400.0 * (x - 0.9) ** 2)

    r = run(two).recommend()
    held = r.value <= truth(two, r.action["x"], 2.0) + 1e-6
    assert held or r.trust.verdict != "checked", str(r)


def test_integer_actions() -> None:
    opt = run(lambda x, t: smooth(x / 8.0, t), actions=drbo.Box(x=drbo.Integer(0, 8)))
    r = opt.recommend()
    assert isinstance(r.check.action["x"], int)
    assert r.trust.verdict == "checked", str(r)


def test_deterministic_outcomes_assume_a_noise() -> None:
    r = run(smooth, 40, noise=0.0).recommend()
    assert r.trust.verdict == "checked"
    assert "is assumed" in " ".join(str(r).split())
    assert r.value <= truth(smooth, r.action["x"], 2.0) + 1e-6


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_do_not_matter(unit: float, sign: float) -> None:
    plain = run(lambda x, t: sign * smooth(x, t))
    scaled = run(lambda x, t: unit * sign * smooth(x, t), noise=0.01 * unit)
    one, two = plain.recommend(), scaled.recommend()
    assert one.trust.verdict == two.trust.verdict
    assert two.value == pytest.approx(unit * one.value, rel=1e-3)


def test_nothing_told_yet() -> None:
    opt = drbo.Optimizer(BOX, samples(), setting=drbo.Simulator(radius=0.1))
    r = opt.recommend()
    assert r.trust.verdict == "extrapolated"
    assert r.value == -math.inf
