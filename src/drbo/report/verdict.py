"""The verdict on a recommendation: green, amber or red, from a few checks with their thresholds in one table.

A verdict is a summary for people who decide. Green says that no check failed; it proves nothing. A check that fails
says what to do about it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drbo._messages import printable
from drbo.analysis import Recommendation
from drbo.analysis.answers import FEW_ROWS
from drbo.analysis.edges import LEAST_GAIN
from drbo.knowledge import ahead
from drbo.knowledge.ahead import FAR
from drbo.report.phrases import Phrases, rounded
from drbo.rounds import checked

THRESHOLDS: Final = {
    "fewest outcomes": 5,  # red below
    "outcomes per dimension": 5,  # amber below, for each parameter and each condition
    "large uncertainty": 1.0,  # amber above: the model's uncertainty, in standard deviations of the outcomes
    "huge uncertainty": 3.0,  # red above
    "fewest tested predictions": 10,  # amber below
    "surprise": FAR,  # an outcome this many deviations from its prediction is a surprise
    "chance of surprises": 0.01,  # amber below: the probability of this many surprises, if the model is right
    "tolerated error": ahead.SCALE,  # the root mean square error, in deviations, that the test tolerates
    "chance of the test": ahead.DELTA,  # red: the probability at which the test refutes a model that is right
    "untried loss": checked.MOST_AT_STAKE,  # amber above: the loss by untried conditions, in deviations
    "untried share": checked.MOST_UNTRIED,  # amber above: the share of the worst case in untried conditions
    "gain of a wider range": LEAST_GAIN,  # amber above, as a share of the model's amplitude
    "likely to work": 0.9,  # amber below: the probability that an evaluation succeeds
    "fewest past cases": FEW_ROWS,  # amber below: past cases behind a reference for known conditions
}
"""All thresholds of the verdict. Those that `recommend()` uses too are imported."""


class Light(IntEnum):
    """The colour of a verdict."""

    GREEN = 0
    AMBER = 1
    RED = 2


WORDS: Final = {
    Light.GREEN: "Sure enough to deploy: no check failed.",
    Light.AMBER: "Check before you rely on it.",
    Light.RED: "Do not rely on it yet.",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check: its colour, what was found, and what to do about it."""

    light: Light
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.text if not self.remedy else f"{self.text} {self.remedy}"


@dataclass(frozen=True)
class Verdict:
    """The findings of all checks."""

    findings: tuple[Finding, ...]

    @property
    def light(self) -> Light:
        """The worst colour of all findings."""
        return max(finding.light for finding in self.findings)

    def __str__(self) -> str:
        return WORDS[self.light]


def verdict(r: Recommendation, outcomes: Sequence[float], dimensions: int, words: Phrases) -> Verdict:
    """Return the verdict on a recommendation, given all outcomes and the number of parameters and conditions."""
    found = [_enough(r, outcomes, dimensions, words), came_true(r), _worst_case(r), *_limits(r), *_others(r, words)]
    return Verdict(tuple(found))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _enough(r: Recommendation, outcomes: Sequence[float], dimensions: int, words: Phrases) -> Finding:
    """Return whether there are enough outcomes, and what the model does not know yet."""
    count, wanted = len(outcomes), int(THRESHOLDS["outcomes per dimension"] * dimensions)
    if count < THRESHOLDS["fewest outcomes"]:
        return Finding(Light.RED, f"Only {_counted(count, 'outcome')} so far.", f"Evaluate more: about {wanted}.")
    unknown, mean = r.explain().ignorance, math.fsum(outcomes) / count
    spread = math.sqrt(math.fsum((y - mean) ** 2 for y in outcomes) / count)
    share = 0.0 if unknown == 0.0 else unknown / spread if spread > 0.0 else math.inf
    doubt = (
        f"The model's own uncertainty costs {words.amount(rounded(unknown, r.value))} in the worst case, {share:.2g} "
        "times the spread of the outcomes."
    )
    if share > THRESHOLDS["huge uncertainty"]:
        return Finding(Light.RED, doubt, "Evaluate more.")
    if share > THRESHOLDS["large uncertainty"]:
        return Finding(Light.AMBER, doubt, "Evaluate more.")
    if count < wanted:
        per = f"{count} outcomes for {dimensions} parameters and conditions are few."
        return Finding(Light.AMBER, per, f"About {wanted} are usual.")
    return Finding(Light.GREEN, f"{count} outcomes are enough for {dimensions} parameters and conditions.")


def came_true(r: Recommendation) -> Finding:
    """Return whether earlier predictions came true."""
    own = r.trust.surprises
    said = f"{str(own)[0].upper()}{str(own)[1:]}"
    if own.refuted:
        remedy = "Correct mistaken results. If there are none, evaluate more, or give a larger bound_beta."
        return Finding(Light.RED, f"{said}: the model is too sure of itself.", remedy)
    if own.corrected:
        return Finding(Light.AMBER, "Results were corrected after they were seen, so predictions are no longer a test.")
    if own.tested < THRESHOLDS["fewest tested predictions"]:
        count = "No earlier prediction" if not own.tested else f"Only {_counted(own.tested, 'earlier prediction')}"
        remedy = "Evaluate more suggestions: each outcome is predicted before it comes."
        return Finding(Light.AMBER, f"{count} could be compared with an outcome.", remedy)
    if own.by_chance < THRESHOLDS["chance of surprises"]:
        remedy = "Look at these results. If they are right, the bounds are probably too narrow."
        return Finding(Light.AMBER, f"{said}: this is more than chance explains.", remedy)
    if own.far:
        were = "was" if own.far == 1 else "were"
        far = f"{own.far} of the last {own.tested} outcomes {were} further than {FAR:g} deviations from the prediction"
        chance = f"a model that is right has this many with a probability of {own.by_chance:.0%}"
        return Finding(Light.GREEN, f"Most predictions came true. {far}; {chance}.")
    said = f"None of the last {own.tested} outcomes was further than {FAR:g} deviations from its prediction"
    return Finding(Light.GREEN, f"Predictions came true. {said}.")


def _worst_case(r: Recommendation) -> Finding:
    """Return whether the worst case lies inside what was tried."""
    if r.claim.proven:
        return Finding(Light.GREEN, "A theorem guarantees the bound, if its assumptions hold.")
    if r.trust.verdict == "extrapolated":
        text = "Neither this action nor one near it was tried in conditions of the worst case."
        return Finding(Light.AMBER, text, f"To check, evaluate {r.check}.")
    text = "The action was tried in conditions like those of the worst case."
    return Finding(Light.GREEN, text)


def _limits(r: Recommendation) -> list[Finding]:
    """Return whether limits hold."""
    found = []
    for limit in r.limits.values():
        if not limit.holds:
            found.append(
                Finding(
                    Light.RED, f"Limit not reached ({limit.word}): {limit}.", "Evaluate more, or give an easier limit."
                )
            )
        elif limit.word == "a guess":
            remedy = f"This is a guess. To check, evaluate {limit.check}."
            found.append(Finding(Light.AMBER, f"Limit not checked: {limit}.", remedy))
        else:
            found.append(Finding(Light.GREEN, f"Limit kept ({limit.word}): {limit}."))
    return found


def _others(r: Recommendation, words: Phrases) -> list[Finding]:
    """Return whether ranges limit the action, whether it is likely to fail, and whether the reference is small."""
    found = []
    for edge in r.edges:
        text = f"The parameter {printable(edge.name)} is at the {edge.side} edge of its range, {edge.value:.4g}."
        better = words.better_by(edge.gain, r.value, "about")
        gain = f"at {edge.wider:.4g} the bound would be {better} (linear extrapolation)"
        found.append(Finding(Light.AMBER, text, f"Widen the range if you can: {gain}."))
    if not found:
        found.append(Finding(Light.GREEN, "No parameter is held back by the edge of its range."))
    if r.success is not None and r.success < THRESHOLDS["likely to work"]:
        found.append(
            Finding(Light.AMBER, f"An evaluation of this action succeeds with a probability of {r.success:.2f}.")
        )
    if r.rows is not None and r.rows < THRESHOLDS["fewest past cases"]:
        found.append(Finding(Light.AMBER, f"The reference rests on {_counted(r.rows, 'past case')}."))
    return found
