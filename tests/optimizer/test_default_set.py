"""One default set, in units of each column's range, whatever the surrogate (REVIEW S6 and U21)."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, MMD, RBF, LearnedGP, Optimizer, Product, Simulator

X, C = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 7)
P, Q = np.full(7, 1.0 / 7.0), np.arange(7) / 21.0


def make(ambiguity: Any, scale: float = 1.0, surrogate: Any = None) -> Optimizer:
    fixed = GP(Product(RBF(0.3), RBF(0.3 * scale)), 0.1)
    chosen = fixed if surrogate is None else surrogate
    return Optimizer(X, scale * C, ambiguity=ambiguity, setting=Simulator(P, 0.2, pick="uncertain"), surrogate=chosen)


@pytest.mark.parametrize("scale", [1000.0, 1e-3])
def test_the_scale_of_contexts_makes_no_difference(scale: float) -> None:
    """S6: in 0.1 all contexts of 0..1000 were sqrt(2) apart."""
    one, other = make(None), make(None, scale)
    assert other.configuration.placed.distance(P, Q) == pytest.approx(one.configuration.placed.distance(P, Q), rel=1e-9)
    for number in range(8):
        a, b = one.ask(), other.ask()
        assert (a.action_index, a.context_index) == (b.action_index, b.context_index)
        assert a.score == pytest.approx(b.score, rel=1e-9)
        for opt, s in ((one, a), (other, b)):
            opt.tell(s, float(np.sin(number)))
    assert one.recommend().action_index == other.recommend().action_index
    assert one.recommend().value == pytest.approx(other.recommend().value, rel=1e-7)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("surrogate", [None, LearnedGP()], ids=["fixed", "learned"])
def test_three_ways_to_say_the_default(scale: float, surrogate: Any) -> None:
    """U21: `MMD()`, `MMD(contexts)` and no set at all; 0.1 had lengthscales of 0.1 and of 0.2 of the range."""
    contexts = scale * C
    expected = MMD(contexts, RBF(0.2 * scale)).distance(P, Q)
    for ambiguity in (None, MMD(), MMD(contexts)):
        opt = make(ambiguity, scale, surrogate)
        assert opt.configuration.placed.distance(P, Q) == pytest.approx(expected, rel=1e-9)
    assert MMD(contexts).distance(P, Q) == pytest.approx(expected, rel=1e-9)


def test_each_column_has_its_own_range() -> None:
    wide = np.array([(a, 1000.0 * b) for a in (0.0, 0.5, 1.0) for b in (0.0, 1.0)])
    p, q = np.full(6, 1.0 / 6.0), np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.5])
    root = 0.2 * np.sqrt(2.0)
    expected = MMD(wide, RBF((root, 1000.0 * root))).distance(p, q)
    for surrogate in (GP(Product(RBF(0.3), RBF((0.3, 300.0))), 0.1), LearnedGP()):
        opt = Optimizer(X, wide, setting=Simulator(p, 0.2, pick="uncertain"), surrogate=surrogate)
        assert opt.configuration.placed.distance(p, q) == pytest.approx(expected, rel=1e-9)


def test_labels_are_equal_or_not() -> None:
    """Choices count as one column, and are one range apart, however many there are."""
    for choices in (("a", "b"), ("a", "b", "c", "d", "e")):
        box = drbo.Box(kind=drbo.Categorical(*choices))
        data = drbo.Samples([[choice] for choice in choices], within=box, support=0)
        opt = Optimizer(X, data, setting=Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
        opt.tell(opt.ask(), 1.0)
        n = len(opt.posterior.contexts)
        first, second = np.eye(n)[0], np.eye(n)[1]
        expected = np.sqrt(2.0 - 2.0 * np.exp(-0.5 / 0.2**2))
        assert opt.configuration.placed.distance(first, second) == pytest.approx(expected, rel=1e-9)
