"""A recommendation at the edge of a range says so, and what a wider range would give."""

import pickle
from typing import Any

import numpy as np
import pytest

import drbo
from tolerances import FINITE_DIFFERENCES

KERNEL = drbo.Product(drbo.RBF(1.5), drbo.RBF(1.0))


def told(box: drbo.Box, outcome: Any, **more: Any) -> drbo.Optimizer:
    """Return an optimizer with outcomes all over a box, in every context."""
    opt = drbo.Optimizer(
        box, drbo.Samples({"t": [0.0, 0.5, 1.0]}, support=0), setting=drbo.Simulator(radius=0.1),
        surrogate=drbo.GP(KERNEL, 0.01), ambiguity=drbo.TotalVariation(), **more,
    )  # fmt: skip
    for point in box.spread(24, 0):
        action = box.decode(point)
        for t in (0.0, 0.5, 1.0):
            opt.tell(action, outcome(action, t), context={"t": t})
    return opt


def rising(action: dict[str, Any], t: float) -> float:
    return float(0.1 * action["x"] + 0.02 * t - 0.5 * (action["y"] - 0.4) ** 2)


def test_the_edge_and_what_is_beyond_it() -> None:
    opt = told(drbo.Box(x=(0.0, 10.0), y=(0.0, 1.0)), rising)
    r = opt.recommend()
    assert r.action["x"] == pytest.approx(10.0)
    (edge,) = r.edges
    assert (edge.name, edge.side) == ("x", "upper")
    assert (edge.value, edge.wider) == pytest.approx((10.0, 11.0))
    # the slope of the bound at the edge, by finite differences inside
    inner = opt.bound({**r.action, "x": 9.999}).value
    assert edge.gain == pytest.approx((r.value - inner) / 0.001, rel=100 * FINITE_DIFFERENCES)
    assert "x is at the upper edge of its range, 10: widen it if you can." in " ".join(str(r).split())
    assert f"At 11 the bound would be about {edge.gain:.4g} better" in " ".join(str(r).split())
    assert pickle.loads(pickle.dumps(r)).edges == r.edges


def test_minimised_outcomes_in_other_units() -> None:
    box = drbo.Box(x=(0.0, 10.0), y=(0.0, 1.0))
    opt = told(box, lambda action, t: -1e9 * rising(action, t), maximize=False)
    r = opt.recommend()
    assert [edge.name for edge in r.edges if edge.side == "upper"] == ["x"]
    assert r.edges[0].gain > 0.0


def test_an_optimum_inside_has_no_edges() -> None:
    r = told(drbo.Box(y=(0.0, 1.0)), lambda action, _: -((action["y"] - 0.4) ** 2)).recommend()
    assert r.edges == ()
    assert "edge" not in str(r)


def test_whole_numbers_logarithms_and_choices() -> None:
    box = drbo.Box(n=drbo.Integer(1, 4), q=drbo.Log(1.0, 100.0), k=drbo.Categorical("u", "v"), s=drbo.Ordinal("S", "L"))
    r = told(box, lambda a, _: 0.3 * a["n"] - 0.4 * np.log10(a["q"]) + (a["k"] == "v") + (a["s"] == "L")).recommend()
    found = {edge.name: edge for edge in r.edges}
    assert found.keys() == {"n", "q"}  # choices have no edge
    assert (found["n"].side, found["n"].wider) == ("upper", 5)
    assert found["q"].side == "lower"
    assert found["q"].wider == pytest.approx(100.0**-0.1)


def test_finite_sets_have_no_edges() -> None:
    opt = drbo.Optimizer(
        np.linspace(0, 1, 4), np.linspace(0, 1, 3), setting=drbo.General(), surrogate=drbo.GP(KERNEL, 0.1)
    )
    opt.tell(np.array([1.0]), 2.0, context=np.array([0.5]))
    assert opt.under(reference=np.ones(3) / 3, radius=0.1).recommend().edges == ()


def test_before_any_outcome_there_is_nothing_to_say() -> None:
    opt = drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), drbo.Samples({"t": [0.0, 1.0]}), setting=drbo.Simulator(radius=0.1))
    assert opt.recommend().edges == ()


def test_a_share_that_others_balance() -> None:
    """a and b sum to 1: a wider range of a moves b, and the slope is that along the line."""
    both = drbo.Box(a=(0.0, 0.5), b=(0.0, 1.0), constraints=[drbo.Total("a", "b", equals=1.0)])
    opt = told(both, lambda action, _: 2.0 * action["a"] + 0.5 * action["b"])
    r = opt.recommend()
    assert r.action == pytest.approx({"a": 0.5, "b": 0.5})
    (edge,) = r.edges
    assert (edge.name, edge.wider) == ("a", pytest.approx(0.55))
    inner = opt.bound({"a": 0.499, "b": 0.501}).value
    assert edge.gain == pytest.approx((r.value - inner) / 0.001 * 0.05, rel=100 * FINITE_DIFFERENCES)


def test_a_parameter_that_another_constraint_holds_is_left_out() -> None:
    held = drbo.Box(a=(0.0, 0.5), b=(0.5, 1.0), constraints=[drbo.LinearConstraint({"a": 1, "b": -1}, at_most=0.0)])
    r = told(held, lambda action, _: 2.0 * action["a"] - 3.0 * action["b"]).recommend()
    assert r.action == pytest.approx({"a": 0.5, "b": 0.5})
    assert [edge.name for edge in r.edges] == []
