"""How far a bound can be trusted: whether its action was tried where it may do badly, and how predictions came out.

A bound rests on extrapolation if bad outcomes in untried conditions would lower it much
(`drbo.rounds.checked.Gap`). Outcomes can refute a model, and never confirm one (`drbo.knowledge.ahead`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import bdtrc, ndtr

from drbo.knowledge.ahead import FAR, FIRST, Ahead
from drbo.knowledge.explanation import named, readable, wrapped
from drbo.knowledge.snapshot import Snapshot
from drbo.rounds.checked import Gap

Verdict = Literal["checked", "extrapolated", "refuted"]
_OUTLIER = 5.0
"""An outcome this many deviations from its prediction is pointed out."""
_NAMED = 3
"""Largest number of contexts or results that are named."""
_LARGER = 1.001
"""A radius is beyond the explored ones from this factor on."""


@dataclass(frozen=True)
class Check:
    """The evaluation that would check a bound: `opt.tell(check.action, outcome, context=check.context)`.

    `key` is the key of a context that has one: `opt.tell(check.action, outcome, context=check.key)`.
    """

    action: Any
    context: Any
    key: Any = None

    def __str__(self) -> str:
        where = named("context", self.context)
        return f"{named('action', self.action)} in {where if self.key is None else f'{readable(self.key)} ({where})'}"


@dataclass(frozen=True)
class Surprises:
    """How far outcomes were from what the model predicted before each of them (`drbo.knowledge.ahead`).

    Attributes
    ----------
    tested : the number of tested outcomes: from the tenth on, and of a long run the last 100 to 200
    far : how many of them were further than 3 deviations from their prediction
    expected : how many would be, on average, for a model that is right
    outliers : the `id` of results that were further than 5 deviations away
    refuted : whether the errors refute the model
    corrected : whether results were amended or retracted after they were seen, so that the errors are no test
    """

    tested: int
    far: int
    expected: float
    outliers: tuple[int, ...]
    refuted: bool
    corrected: bool

    @classmethod
    def of(cls, ahead: Ahead) -> Surprises:
        """Return the surprises among one-step-ahead errors."""
        tested = sum(number + 1 >= FIRST for number in ahead.results)
        expected = 2.0 * float(ndtr(-FAR)) * tested
        outliers = tuple(ahead.beyond(_OUTLIER))
        return cls(tested, len(ahead.beyond(FAR)), expected, outliers, ahead.refuted, ahead.corrected)

    @property
    def by_chance(self) -> float:
        """The probability that a correct model has at least this many outcomes beyond 3 deviations."""
        return float(bdtrc(self.far - 1, self.tested, 2.0 * ndtr(-FAR))) if self.far else 1.0

    def __str__(self) -> str:
        if not self.tested:
            return f"no prediction has been tested: predictions count from outcome {FIRST} on"
        expected = f"{self.expected:.1g}" if self.expected >= 0.1 else "fewer than 0.1"
        them, were = ("it", "was") if self.far == 1 else ("them", "were")
        return (
            f"{self.far} of the last {self.tested} outcomes {were} further than {FAR:g} deviations from what the model "
            f"had predicted before {them}, and {expected} were to be expected"
        )


@dataclass(frozen=True)
class Trust:
    """A verdict on a bound, with its reasons.

    Attributes
    ----------
    verdict : "refuted" if outcomes contradict the model; "extrapolated" if too much depends on untried
        conditions; otherwise "checked", which is no proof
    reasons : the reasons in words
    guess : the bound of the model alone, in the user's units
    stressed : the bound with bad outcomes in untried conditions (`drbo.rounds.checked.Gap`), in the user's units
    untried : the mass of the worst distribution in untried conditions
    checks : the number of outcomes of suggestions that checked a recommended action (`suggestion.reason` is "verify")
    surprises : how far outcomes were from their predictions
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    guess: float
    stressed: float
    untried: float
    checks: int
    surprises: Surprises

    @property
    def words(self) -> str:
        """The verdict with its reasons, in one line."""
        return f"{self.verdict}: {'; '.join(self.reasons)}"

    def __str__(self) -> str:
        return wrapped(self.words)


def trust(
    asked: Snapshot,
    name: str,
    gap: Gap,
    bounds: tuple[float, float],
    radius: float,
    check: Check,
    assumed_noise: float | None,
) -> Trust:
    """Return the verdict on a bound of an outcome.

    `gap` is the loss by untried conditions, `bounds` are those of the model alone and with that loss, in the user's
    units, `radius` is that of its set, and `check` the evaluation that would check it. `assumed_noise` is a noise in
    the user's units that no outcome shows, None if they show it.
    """
    found: dict[Verdict, list[str]] = {"refuted": [], "extrapolated": [], "checked": []}
    ahead, (guess, stressed) = asked.ahead(name), bounds
    surprises = Surprises.of(ahead)
    if ahead.refuted:
        found["refuted"] += [f"{surprises}: the model is too sure of itself", _remedy(ahead)]
    if gap.open:
        found["extrapolated"].append(
            f"neither this action nor one near it was tried in conditions such as {readable(check.context)}"
            f"{_stress(guess, stressed)}"
        )
    widest = asked.state.largest_radius
    if asked.state.told_so_far and radius > _LARGER * widest:
        found["extrapolated"].append(f"suggestions were for a radius of at most {widest:.3g}, and this is {radius:.3g}")
    if found["extrapolated"]:
        found["extrapolated"].append(f"to check, evaluate {check}")
    checks = sum(ahead.verified)
    found["checked"].append(_checked(ahead, checks))
    outliers = ahead.beyond(_OUTLIER)
    if outliers and not ahead.refuted:
        found["checked"].append(_outliers(outliers))
    if assumed_noise is not None:
        found["checked"].append(
            f"no evaluation was repeated, so the noise is not known: {assumed_noise:.2g} is assumed"
        )
    verdict = next(one for one, reasons in found.items() if reasons)
    reasons = (*found["refuted"], *found["extrapolated"]) if verdict != "checked" else tuple(found["checked"])
    return Trust(verdict, reasons, guess, stressed, gap.untried, checks, surprises)


def _stress(guess: float, stressed: float) -> str:
    said, alone = f"{stressed:.4g}", f"{guess:.4g}"
    if said == alone:
        return f"; bad outcomes there would not change the bound of {said}"
    return f"; with bad outcomes there the bound is {said}, and the model's guess is {alone}"


def _remedy(ahead: Ahead) -> str:
    outliers = ahead.beyond(_OUTLIER)
    mistakes = f"{_results(outliers)}, if mistaken," if outliers else "mistaken outcomes"
    return f"correct {mistakes} with amend or retract; otherwise evaluate more, or give a larger bound_beta"


def _outliers(outliers: list[int]) -> str:
    were = "was" if len(outliers) == 1 else "were"
    return (
        f"{_results(outliers)} {were} further than {_OUTLIER:g} deviations from the prediction: if mistaken, use amend "
        "or retract"
    )


def _results(numbers: list[int]) -> str:
    named = ", ".join(str(number) for number in numbers[-_NAMED:])
    return f"result {named}" if len(numbers) == 1 else f"results {named}"


def _checked(ahead: Ahead, checks: int) -> str:
    if not checks:
        return "tried in conditions like those of its worst case; no separate check was made"
    below = sum(error < -FAR for error, one in zip(ahead.errors, ahead.verified, strict=True) if one)
    count = "one evaluation" if checks == 1 else f"{checks} evaluations"
    if not below:
        return f"{count} checked a recommended action where it would do worst; all outcomes within the bound"
    beyond = "one outcome was" if below == 1 else f"{below} outcomes were"
    return f"{count} checked a recommended action where it would do worst; {beyond} beyond the bound at that time"
