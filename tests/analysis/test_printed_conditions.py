"""What a printed recommendation says about its reference and about the mass that makes the worst case."""

import math
from typing import Any

import numpy as np
import pytest

import drbo

FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.3)), noise=0.1)


def recommended(ambiguity: Any, radius: float, worse: Any, contexts: Any = None) -> Any:
    """Return a recommendation after outcomes that fall with the temperature as `worse` says."""
    days = np.linspace(0.0, 20.0, 40)
    contexts = drbo.Samples({"t": days}, support=0) if contexts is None else contexts
    opt = drbo.Optimizer([0.0], contexts, ambiguity=ambiguity, setting=drbo.Simulator(radius=radius), surrogate=FIXED)
    for t in days[::3]:
        opt.tell(0.0, -worse(t), context={"t": float(t)})
    return opt.recommend()


def test_a_few_days_in_the_corner_are_said() -> None:
    r = recommended(drbo.Wasserstein(), 0.1, lambda t: 5.0 * math.exp((t - 20.0) / 2.0))
    moved = np.maximum(r.weights - r.reference, 0.0).sum()
    assert 0.0 < moved < 0.1
    assert f"this worst case moves only {moved:.1%} of the mass" in " ".join(str(r).split())
    assert "such as t = 20;" in " ".join(str(r).split())
    assert "with order=2 more days move" in " ".join(str(r).split())
    assert r.explain().corner


@pytest.mark.parametrize("order", [2.0, math.inf])
def test_more_days_move_with_a_higher_order(order: float) -> None:
    r = recommended(drbo.Wasserstein(order=order), 2.0, lambda t: 0.1 * t)
    assert "this worst case moves only" not in str(r)


def test_a_set_without_an_order_has_no_advice_and_the_middle_is_no_corner() -> None:
    r = recommended(drbo.TotalVariation(), 0.05, lambda t: 0.1 * t)
    assert "this worst case moves only 5.0% of the mass" in " ".join(str(r).split())
    assert "order=2" not in str(r)
    middle = recommended(drbo.TotalVariation(), 0.05, lambda t: 3.0 - 0.05 * (t - 10.0) ** 2)
    assert not middle.explain().corner


def test_the_rows_behind_a_conditional_reference_are_printed() -> None:
    rng = np.random.default_rng(0)
    table: Any = {"t": rng.normal(size=46), "weekday": ["Mon"] * 16 + ["Tue"] * 30}
    opt = drbo.Optimizer(
        [0.0, 1.0], drbo.Samples(table), ambiguity=drbo.MMD(), setting=drbo.Simulator(radius=0.1), surrogate=FIXED
    )
    for i in range(0, 46, 5):
        opt.tell(1.0, 1.0 + 0.1 * i, context={"t": float(table["t"][i]), "weekday": table["weekday"][i]})
    few, enough, every = (opt.recommend(given=given) for given in ({"weekday": "Mon"}, {"weekday": "Tue"}, {}))
    assert (few.rows, enough.rows, every.rows) == (16, 30, None)
    assert "where weekday = 'Mon', which 16 past context(s) had" in str(few)
    assert "warning: a reference of 16 past context(s) may be far from the truth" in str(few)
    assert "which 30 past context(s) had" in str(enough)
    assert "warning" not in str(enough)
    assert "past context(s)" not in str(every)
