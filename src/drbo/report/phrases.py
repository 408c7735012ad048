"""The words of a page for one outcome: its name, its unit, and what is better."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drbo import Optimizer
from drbo._messages import printable
from drbo.analysis import RadiusExplanation
from drbo.knowledge import Explanation
from drbo.rounds.limits import in_unit


@dataclass(frozen=True)
class Phrases:
    """The words for an outcome.

    Attributes
    ----------
    name, unit : its name, and its unit or None
    maximize : whether more of it is better
    """

    name: str
    unit: str | None
    maximize: bool

    @classmethod
    def of(cls, opt: Optimizer) -> Phrases:
        """Return the words for the objective of an optimizer."""
        own = opt.configuration
        return cls(printable(own.objective.name), own.objective.unit, own.maximize)

    @property
    def axis(self) -> str:
        """The title of an axis: "cost (EUR per day)"."""
        return self.name if self.unit is None else f"{self.name} ({printable(self.unit)})"

    @property
    def limit(self) -> str:
        """The words before a bound: "at least" or "at most"."""
        return "at least" if self.maximize else "at most"

    def amount(self, value: float) -> str:
        """Return a value with its unit."""
        return in_unit(value, self.unit)

    def change(self, value: float, beside: float, opposite: str) -> str:
        """Return a difference of values of the size `beside`, rounded as they are.

        `opposite` is the word for a negative difference, such as "gained" for a loss.
        """
        value = rounded(value, beside)
        return self.amount(value) if value >= 0.0 else f"none: {self.amount(-value)} {opposite}"

    def better_by(self, difference: float, beside: float, bound: str = "") -> str:
        """Return an advantage in words: "lower by 3.2 EUR" for a cost; `bound` is "at least", "at most" or nothing.

        It is a difference of values of the size `beside`, and is rounded as they are.
        """
        higher, size = (difference >= 0.0) == self.maximize, rounded(abs(difference), beside)
        if not size and not bound:
            return "the same"
        return f"{'higher' if higher else 'lower'} by {bound}{' ' * bool(bound)}{self.amount(size)}"


def rounded(difference: float, beside: float) -> float:
    """Return a difference without the digits that values of the size `beside` do not show."""
    if beside == 0.0 or not math.isfinite(difference) or not math.isfinite(beside):
        return difference
    step = 10.0 ** (math.floor(math.log10(abs(beside))) - 3)
    return float(step * round(difference / step))


def shift_in_words(told: RadiusExplanation, explained: Explanation) -> str:
    """Return the shift that a radius allows for, in the units of the conditions, in the direction of the worst case.

    The text continues "if ".
    """
    if told.radius == 0.0 and not told.means:
        return "conditions stay as they were: no shift is allowed for"
    if told.radius >= told.diameter > 0.0:
        return "any of the listed conditions becomes as frequent as you like"
    found = _moves(told, explained) or _reweighted(told)
    if not found:
        return _stated(told.set_words)
    return f"{', or '.join(found)}, or conditions shift by as much in another way"


def _stated(set_words: str) -> str:
    """Return a set in the words of its own: "the share of old is from 10% to 50%"."""
    if not set_words.startswith("whose "):
        return f"conditions follow any distribution {set_words}"
    said = f"the {set_words.removeprefix('whose ')}".replace(" and whose ", ", and the ")
    return said.replace(".0%", "%").replace("the reference's", "the usual")


def _moves(told: RadiusExplanation, explained: Explanation) -> list[str]:
    """Return the shift of each numeric column in the direction that hurts, and of the label that grows."""
    columns = {column.name: column for column in explained.columns}
    found = []
    for shift in told.shifts:
        column = columns.get(shift.column)
        up = column is None or not column.numeric or column.worst.mean >= column.reference.mean  # type: ignore[union-attr]
        none = 1.0 if shift.logarithmic else 0.0
        sides = [("higher", shift.higher), ("lower", shift.lower)]
        for side, amount in sides if up else sides[::-1]:
            if amount is not None and amount != none:
                size = _down(amount)
                if shift.logarithmic:
                    size = f"{_down(100.0 * (amount - 1.0 if side == 'higher' else 1.0 - 1.0 / amount))}%"
                found.append(f"{printable(shift.column)} is always up to {size} {side} than usual")
                break
    turned = [one for one in told.relabelled if one.share]
    grown = [one for one in turned if _grows(columns.get(one.column), one.label)] or turned[:1]
    most = max(grown, key=lambda one: one.share or 0.0, default=None)
    if most is not None:
        what = printable(most.label if most.column == "context" else f"{most.column} = {most.label}")
        found.append(f"up to {most.share:.0%} of all cases turn to {what}")
    return found


def _down(value: float) -> str:
    """Return a positive number rounded down to three digits, so that the stated shift is inside the set."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / step * (1.0 + 1e-9)) * step:.3g}"


def _grows(column: object, label: object) -> bool:
    """Return whether the worst distribution has more of a label than the reference."""
    labels = getattr(column, "labels", ())
    if label not in labels:
        return False
    i = list(labels).index(label)
    return bool(column.worst[i] > column.reference[i])  # type: ignore[attr-defined]


def _reweighted(told: RadiusExplanation) -> list[str]:
    """Return what a set without positions allows for."""
    if told.replaced is not None:
        return [f"up to {100.0 * told.replaced:.3g}% of all cases are replaced by the worst possible cases"]
    if told.likelier:
        one = told.likelier[0]
        return [f"the worst {one.share:.0%} of cases become up to {one.most / one.share:.3g} times as frequent"]
    return []
