"""The methods that are compared: one optimizer, different ambiguity sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drbo.ambiguity import AmbiguitySet, Expectation, Neighbourhood
from drbo.problems import Problem


@dataclass(frozen=True)
class Method:
    """A name, and the set of distributions that it is robust to."""

    name: str
    ambiguity: Callable[[Problem], AmbiguitySet]


DRBO = Method("DRBO", lambda problem: problem.ambiguity)
UCB = Method("UCB", lambda _: Expectation())
STABLEOPT = Method("StableOpt", lambda problem: Neighbourhood(problem.contexts))
METHODS = (DRBO, UCB, STABLEOPT)


def by_name(name: str) -> Method:
    """Return the method of that name."""
    return next(method for method in METHODS if method.name == name)
