"""A question is about what is known at one moment, under conditions of its own."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bits import bits
from drbo import GP, MMD, RBF, Chance, DataDriven, General, LearnedGP, Optimizer, Product, Simulator
from drbo.optimizer.question import Question

X, C = np.linspace(0.0, 1.0, 7), np.linspace(0.0, 1.0, 5)
P = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
FIXED = GP(Product(RBF(0.3), RBF(0.4)), 0.1)
ANSWERS: dict[str, Callable[[Question], Any]] = {
    "recommend": lambda q: q.recommend(),
    "recommend_for": lambda q: q.recommend_for(-5.0),
    "bound": lambda q: q.bound(X[2]),
    "compare": lambda q: q.compare(X[2], X[4]),
    "probability": lambda q: q.probability(X[2], above=0.0),
    "value_at_risk": lambda q: q.value_at_risk(X[2], 0.2),
    "classify": lambda q: q.classify(Chance(0.5, above=0.0)),
    "regret_bound": lambda q: q.regret_bound(),
    "profile": lambda q: q.profile([0.0, 0.2]),
    "sensitivity": lambda q: q.sensitivity(),
    "explain_radius": lambda q: q.explain_radius([0.1, 0.2]),
    "narrowing": lambda q: q.narrowing(X[2]),
    "backtest": lambda q: q.backtest([0.0, 0.2], 2, past=C),
}


def f(x: float, c: float) -> float:
    return float(np.sin(3.0 * x) - (x - c) ** 2)


def told(opt: Optimizer, count: int, start: int = 0) -> Optimizer:
    for i in range(start, start + count):
        x, c = X[(3 * i) % 7], C[(2 * i) % 5]
        opt.tell(x, f(x, c), context=c)
    return opt


def make(surrogate: Any = FIXED, **more: Any) -> Optimizer:
    setting = more.pop("setting", Simulator(P, 0.2))
    return Optimizer(X, C, ambiguity=MMD(kernel=RBF(0.3)), setting=setting, surrogate=surrogate, **more)


@pytest.mark.parametrize("surrogate", [FIXED, LearnedGP()], ids=["fixed", "learned"])
@pytest.mark.parametrize("name", ANSWERS)
def test_later_results_do_not_reach_a_question(name: str, surrogate: Any) -> None:
    """It answers the same, made before or after results that came later: first ones, more, and corrections."""
    opt = told(make(surrogate), 8)
    expected = bits(ANSWERS[name](opt.under(radius=0.1)))
    kept, fresh = opt.under(radius=0.1), told(make(surrogate), 8).under(radius=0.1)
    told(opt, 4, start=8)
    opt.tell(X[0], failed=True, context=C[0])
    opt.retract(0)
    opt.recommend()
    assert bits(ANSWERS[name](kept)) == bits(ANSWERS[name](fresh)) == expected
    twin = told(make(surrogate), 12)
    twin.tell(X[0], failed=True, context=C[0])
    twin.retract(0)
    assert bits(opt.recommend()) == bits(twin.recommend())  # and the question does not reach what is known now
    assert bits(opt.ask()) == bits(twin.ask())


def test_defaults_are_those_of_the_last_ask() -> None:
    opt = make(setting=General())
    opt.tell(opt.ask(reference=P, radius=0.1), 1.0, context=C[1])
    assert bits(opt.under().recommend()) == bits(opt.recommend()) == bits(opt.recommend(P, 0.1))
    assert opt.under(radius=0.3).recommend().radius == 0.3
    q = opt.under()
    assert opt.under() is q  # as long as nothing has changed
    opt.tell(opt.ask(reference=P, radius=0.4), 1.0, context=C[1])
    assert (q.recommend().radius, opt.under().recommend().radius) == (0.1, 0.4)


def test_a_question_may_have_any_radius() -> None:
    """Also where the setting computes its own, so that bounds at several radii can be compared."""
    opt = told(make(setting=DataDriven()), 6)
    assert opt.recommend(radius=0.05).radius == 0.05
    assert opt.bound(X[2], radius=0.05).value > opt.bound(X[2], radius=0.5).value
    assert opt.recommend().radius > 0.5
    with pytest.raises(TypeError, match="reference must not be given"):
        opt.ask(reference=P)
    with pytest.raises(ValueError, match="radius"):
        opt.under(radius=-0.1)


def test_two_threads_ask_one_question() -> None:
    question, answers = told(make(), 9).under(), []
    expected = {name: bits(ask(told(make(), 9).under())) for name, ask in ANSWERS.items()}

    def ask() -> None:
        answers.append({name: bits(one(question)) for name, one in ANSWERS.items()})

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected, expected]


def test_it_is_frozen_and_says_what_it_is() -> None:
    question = told(make(), 3).under(radius=0.2)
    with pytest.raises(AttributeError):
        question._asked = None  # type: ignore[misc, assignment]
    assert repr(question) == "a question after 3 results (radius=0.2)"


def test_the_optimizer_is_small() -> None:
    names = {name for name in dir(Optimizer) if not name.startswith("_")}
    assert len(names) <= 28
    assert Optimizer.__mro__ == (Optimizer, object)


def test_copies_are_the_same_question_and_pickles_are_refused() -> None:
    question = Optimizer(X, C, ambiguity=MMD(kernel=RBF(0.2)), setting=General(), surrogate=FIXED).under(P, 0.2)
    assert copy.copy(question) is question
    assert copy.deepcopy(question) is question
    with pytest.raises(TypeError, match="a Question cannot be pickled: pickle the optimizer"):
        pickle.dumps(question)
