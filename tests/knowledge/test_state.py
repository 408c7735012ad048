"""What follows from facts at once, record by record."""

import numpy as np
import pytest

from drbo.kernels import RBF, Product
from drbo.knowledge.history import OBJECTIVE, Asked, Cancelled, Proposal, Readings, Told
from drbo.knowledge.state import State, observations, values_of
from drbo.models.data import Units
from drbo.models.gp import GP, FittedGP
from drbo.spaces.space import Point

FIT = FittedGP(GP(Product(RBF(0.3), RBF(0.3)), 0.1), 0.0, 1.0, 0.0)
NEW = FittedGP(FIT.gp, 10.0, 2.0, 0.0, 4)
C = Point(np.array([0.5]))


def at(x: float) -> Point:
    return Point(np.array([x]))


def proposal(number: int, x: float, guarantee: float, further: int = 0) -> Proposal:
    wanted = np.full((further, 1), float(number))
    return Proposal(number, at(x), None, 0.1, 0.0, guarantee, wanted)


def asked(*proposals: Proposal, fit: FittedGP | None = None) -> Asked:
    return Asked(0.0, None, 0.1, {} if fit is None else {OBJECTIVE: fit}, proposals)


def told(number: int | None, x: float, outcome: float | None = 1.0, drawn: bool = True) -> Told:
    return Told(0.0, number, at(x), (C,), {} if outcome is None else {OBJECTIVE: Readings((outcome,))}, drawn)


def state(sign: float = 1.0) -> State:
    return State({OBJECTIVE: FIT}, sign, 1)


def test_pending_is_what_was_asked_and_neither_told_nor_cancelled() -> None:
    s = state()
    for record in (asked(proposal(0, 0.1, 0.0), proposal(1, 0.2, 0.0)), asked(proposal(2, 0.3, 0.0))):
        s.apply(record)
    assert (list(s.pending), s.n_asked) == ([0, 1, 2], 3)
    s.apply(told(1, 0.2))
    s.apply(Cancelled(0.0, 0))
    assert (list(s.pending), s.n_asked, s.counts[OBJECTIVE]) == ([2], 3, 1)
    assert [one.proposal.action.coordinates.tolist() for one in s.pending.values()] == [[0.3]]


def test_contexts_seen_are_those_that_nature_drew() -> None:
    s = state()
    s.apply(told(None, 0.1))
    s.apply(told(None, 0.1, None, drawn=False))
    s.apply(told(None, 0.1, None, drawn=True))
    assert (len(s.seen), s.counts[OBJECTIVE], len(s.told_so_far)) == (2, 1, 3)
    assert (s.n_failed, len(s.failed)) == (2, 0)  # the same action failed twice, and has an outcome


@pytest.mark.parametrize(("sign", "best"), [(1.0, 1), (-1.0, 0)])
def test_the_incumbent_is_the_first_of_the_best(sign: float, best: int) -> None:
    s = state(sign)
    for number, guarantee in enumerate((1.0, 3.0, 3.0, 2.0, 1.0)):
        s.apply(asked(proposal(number, 0.1 * number, guarantee)))
    assert s.incumbent is not None
    assert s.incumbent.proposal.number == best


def test_an_incumbent_that_failed_makes_way() -> None:
    s = state()
    for number, guarantee in enumerate((1.0, 3.0, 2.0)):
        s.apply(asked(proposal(number, 0.1 * number, guarantee)))
    s.apply(told(1, 0.1, None))
    assert s.incumbent is not None
    assert s.incumbent.proposal.number == 2
    s.apply(told(None, 0.2 + 1e-15, None))  # told by its value: rounding makes no other action of it
    assert s.incumbent.proposal.number == 0
    s.apply(asked(proposal(3, 0.1, 9.0)))  # failed before
    assert s.incumbent.proposal.number == 0
    s.apply(told(0, 0.0, None))
    assert s.incumbent is None


def test_the_latest_fit_and_the_latest_contexts_wanted_are_kept() -> None:
    s = state()
    s.apply(asked(proposal(0, 0.1, 0.0, further=40)))
    assert s.fits[OBJECTIVE] is FIT
    s.apply(asked(proposal(1, 0.1, 0.0, further=40), fit=NEW))
    s.apply(asked(proposal(2, 0.1, 0.0)))
    assert s.fits[OBJECTIVE] is NEW
    assert s.further.shape == (64, 1)
    assert (s.further[:24] == 0.0).all()
    assert (s.further[24:] == 1.0).all()


def test_what_a_model_learns_from() -> None:
    s = state(-1.0)
    s.apply(told(None, 0.1, 12.0))
    s.apply(told(None, 0.2, None))
    s.apply(told(None, 0.3, 8.0))
    found = values_of(s.told_so_far, OBJECTIVE, Units(-1.0))
    assert (found.x.tolist(), found.c.tolist(), found.y.tolist()) == ([[0.1], [0.3]], [[0.5], [0.5]], [-12.0, -8.0])
    (one,) = observations(told(None, 0.1, 14.0), OBJECTIVE, NEW.units(1.0))
    assert one.outcome == 2.0
    (failed,) = observations(told(None, 0.1, None), OBJECTIVE, NEW.units(1.0))
    assert failed.outcome is None


def test_each_outcome_has_its_own_count_fit_and_observations() -> None:
    s = State({OBJECTIVE: FIT, "peak": FIT}, 1.0, 1)
    both = Told(0.0, None, at(0.1), (C,), {OBJECTIVE: Readings((3.0,)), "peak": Readings((61.0,), (0.5,))}, True)
    s.apply(Asked(0.0, None, 0.1, {"peak": NEW}, ()))
    s.apply(both)
    s.apply(told(None, 0.3, 4.0))
    assert s.counts == {OBJECTIVE: 2, "peak": 1}
    assert s.fits == {OBJECTIVE: FIT, "peak": NEW}
    found = values_of(s.told_so_far, "peak", Units(-1.0))
    assert (found.y.tolist(), found.stderr.tolist()) == ([-61.0], [0.5])
    (one,) = observations(both, "peak", Units())
    assert one.outcome == 61.0
    assert observations(told(None, 0.3, 4.0), "peak", Units()) == []  # it was not measured
    (failed,) = observations(told(None, 0.3, None), "peak", Units())
    assert failed.outcome is None
