"""Limits of outcomes: at most or at least a threshold, on average or with a probability.

A limit holds if it holds in every distribution of the set, each limit under its own worst distribution:

    AtMost(b)                    max_w <w, g(x, .)> <= b
    AtMost(b, probability=p)     min_w P_w(g(x, c) <= b) >= p

The model of a limited outcome maximises, as every model does, so `AtMost` has the sign -1. A limit is then a floor
on the worst case of its model (`drbo.rounds.floors`).
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

from drbo import validation
from drbo._messages import printable
from drbo.models.bounds import Beta, as_beta
from drbo.models.surrogate import Posterior, Surrogate, check_surrogate
from drbo.rounds.chance import ENOUGH, Chance, Event, Of
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.floors import Floor, Likely, Limit, View
from drbo.validation import FloatArray

__all__ = ["AtLeast", "AtMost"]


@dataclass(frozen=True)
class AnyLimit:
    """A limit of an outcome, in its units.

    Parameters
    ----------
    threshold : the threshold b
    probability : None limits the expectation. Otherwise the outcome is within the threshold with this probability
    of : with a probability: "f", the expected outcome in a context; or "outcome", with normal noise of the model's
        deviation added to it
    unit : of the outcome, for texts: "degC"
    surrogate : the model of the outcome; the default is that of the optimizer
    beta : the width of the outcome's confidence bounds, a number or a `TheoreticalBeta`; the default is that of the
        optimizer. The bounds of a recommendation have a width of 2 or more for a surrogate that learns
    """

    sign: ClassVar[float]
    words: ClassVar[str]

    threshold: float
    probability: float | None = None
    of: Of = "f"
    unit: str | None = None
    surrogate: Surrogate | None = None
    beta: Any = None

    def __init_subclass__(cls) -> None:
        if AnyLimit.__doc__ and cls.__doc__:  # both kinds of limits have the same parameters
            shared = inspect.cleandoc(AnyLimit.__doc__)
            cls.__doc__ += "\n\n" + shared[shared.index("Parameters") :]

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", validation.finite_float("threshold", self.threshold))
        if self.of not in ("f", "outcome"):
            raise ValueError(f'of must be "f" or "outcome", got {self.of!r}')
        if self.probability is None and self.of != "f":
            raise TypeError("of must not be given without a probability: noise does not change an expectation")
        if self.probability is not None:
            share = validation.finite_float("probability", self.probability)
            if not 0.0 < share <= 1.0:
                raise ValueError(f"probability must be above 0 and up to 1, got {share}")
            object.__setattr__(self, "probability", share)
        check_unit(self.unit)
        if self.surrogate is not None:
            check_surrogate(self.surrogate)
        if self.beta is not None:
            object.__setattr__(self, "beta", as_beta(self.beta))

    @property
    def event(self) -> Event:
        """The event that the outcome is within the threshold."""
        return Event(above=self.threshold, of=self.of) if self.sign > 0.0 else Event(below=self.threshold, of=self.of)

    @property
    def chance(self) -> Chance | None:
        """The limit as a chance constraint; None if it limits the expectation."""
        if self.probability is None:
            return None
        if self.sign > 0.0:
            return Chance(self.probability, above=self.threshold, of=self.of)
        return Chance(self.probability, below=self.threshold, of=self.of)

    def rule(self, default: Beta) -> Beta:
        """Return the width rule of the outcome."""
        return default if self.beta is None else as_beta(self.beta)

    def requirement(self, beliefs: Beliefs, proven: bool, view: View) -> Floor | Likely:
        """Return the limit as a requirement of an action; `proven` bounds hold in all contexts at once."""
        if self.probability is None:
            return Floor(beliefs, beliefs.units.inward(self.threshold), view)
        event = self.event

        def likelihood(posterior: Posterior, values: FloatArray) -> FloatArray:
            return event.in_model(beliefs.units, posterior).likelihood(values)

        return Likely(beliefs, likelihood, self.probability - ENOUGH, view, proven)

    def in_round(self, name: str, beliefs: Beliefs, *, proven: bool) -> Limit:
        """Return the limit in a round."""
        return Limit(name, beliefs, functools.partial(self.requirement, beliefs, proven))

    def __str__(self) -> str:
        often = "on average" if self.probability is None else f"with a probability of at least {self.probability:g}"
        return f"{self.words} {in_unit(self.threshold, self.unit)} {often}"


@dataclass(frozen=True)
class AtMost(AnyLimit):
    """The outcome is at most a threshold, in every distribution of the set: `AtMost(68.0, unit="degC")`."""

    sign: ClassVar[float] = -1.0
    words: ClassVar[str] = "at most"


@dataclass(frozen=True)
class AtLeast(AnyLimit):
    """The outcome is at least a threshold, in every distribution of the set: `AtLeast(21.0, probability=0.95)`."""

    sign: ClassVar[float] = 1.0
    words: ClassVar[str] = "at least"


def in_unit(value: float, unit: str | None) -> str:
    """Return a value with its unit, as text."""
    return f"{value:.4g}" if unit is None else f"{value:.4g} {printable(unit)}"


def check_unit(unit: object) -> None:
    """Raise unless the argument is the name of a unit, or None."""
    if unit is not None and not (isinstance(unit, str) and unit):
        raise TypeError(f'unit must be a text such as "degC", or None, got {unit!r}')
