"""The parts of an explanation, as text and as HTML for notebooks; the HTML escapes all values."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from drbo._messages import printable
from drbo.rounds.limits import in_unit
from drbo.spaces.space import is_number, text, words
from drbo.validation import FloatArray


def as_html(title: str, cells: Iterable[tuple[str, Any]], details: str = "") -> str:
    """Return HTML: a title, a table of names and values, and collapsed details in a fixed font."""
    lines = "".join(f"<tr><th>{_escape(name)}</th><td>{_escape(text(value))}</td></tr>" for name, value in cells)
    folded = f"<details><summary>in full</summary><pre>{_escape(details)}</pre></details>" if details else ""
    return f"<div><strong>{_escape(title)}</strong><table>{lines}</table>{folded}</div>"


def _escape(value: str) -> str:
    return html.escape(value, quote=True)


WIDTH = 80
"""Largest length of a printed line."""
QUANTILES = (0.05, 0.5, 0.95)
_SHOWN = 6
"""Largest number of labels printed per column."""
Made = TypeVar("Made")


class Deferred(Generic[Made]):
    """A lazily computed value; its inputs must not change."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make: Callable[[], Made] | None = make
        self._made: Made

    def get(self) -> Made:
        """Return the value."""
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # frees the inputs
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.get(),)


def _made(value: Made) -> Deferred[Made]:
    return Deferred(lambda: value)


@dataclass(frozen=True)
class Spread:
    """A summary of a distribution: mean, standard deviation, and the 5%, 50% and 95% quantiles."""

    mean: float
    std: float
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray) -> Spread:
        """Return the summary of values (n,) with weights (n,); a quantile is one of the values."""
        mean = float(weights @ values)
        std = math.sqrt(max(float(weights @ (values - mean) ** 2), 0.0))
        order = np.argsort(values, kind="stable")
        below = np.cumsum(weights[order])
        at = [int(np.argmax(below >= share * below[-1] * (1.0 - 1e-12))) for share in QUANTILES]
        return cls(mean, std, *(float(values[order[i]]) for i in at))

    def cells(self) -> str:
        """Return the five numbers as a row of a table; a rounding residue prints as 0."""
        numbers = self.mean, self.std, self.low, self.median, self.high
        least = 1e-9 * max(abs(number) for number in numbers)
        return "".join(f"{number if abs(number) >= least else 0.0:11.4g}" for number in numbers)


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column: its summaries under the reference and in the worst distribution."""

    numeric: ClassVar[bool] = True

    name: str
    reference: Spread
    worst: Spread

    def lines(self, indent: int) -> list[str]:
        """Return both summaries as text, after the name."""
        return [
            f"  {printable(self.name):<{indent}}reference{self.reference.cells()}",
            f"  {'':<{indent}}worst    {self.worst.cells()}",
        ]


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels: their shares under the reference and in the worst distribution."""

    numeric: ClassVar[bool] = False

    name: str
    labels: tuple[Any, ...]
    reference: tuple[float, ...]
    worst: tuple[float, ...]

    def lines(self, indent: int) -> list[str]:
        """Return both lists of shares as text, after the name; only the largest shares if there are many."""
        order = sorted(range(len(self.labels)), key=lambda i: -max(self.reference[i], self.worst[i]))
        shown = sorted(order[:_SHOWN])
        lines = []
        for name, word, shares in ((self.name, "reference", self.reference), ("", "worst", self.worst)):
            parts = [f"{printable(self.labels[i])} {shares[i]:.1%}" for i in shown]
            if len(order) > len(shown):
                count, rest = len(order) - len(shown), math.fsum(shares[i] for i in order[_SHOWN:])
                parts.append(f"{count} other{'' if count == 1 else 's'} {rest:.1%}")
            lines.append(wrapped(f"  {printable(name):<{indent}}{word:<9}  {', '.join(parts)}", " " * (indent + 13)))
        return lines


AnyColumn = NumberColumn | LabelColumn


@dataclass(frozen=True)
class NextEvaluation:
    """The evaluation that reduces `ignorance` most.

    Attributes
    ----------
    action, context : the recommended action, and the context to evaluate it in
    value : the bound of the action afterwards, if the outcome equals the posterior mean
    """

    action: Any
    context: Any
    value: float


@dataclass(frozen=True)
class Explanation:
    """The parts of the distance between expectation and bound; all numbers are in the user's units.

    |expected - value| = shift + ignorance + left_open + untried, and no part is negative. The exception is a set
    without its reference, such as `Neighbourhood`: if its worst case is better than the reference, `shift` is negative.

    Attributes
    ----------
    expected : the model's expectation of the action under the reference; nan without outcomes
    value : the bound, valid in every distribution of the set
    shift : the cost of a shift of the conditions under the posterior mean; the radius that compression of samples adds
        is included
    ignorance : the cost of the model's uncertainty; infinite while a model that learns its scale has no outcome
    left_open : the gap that unfinished branch and bound left in a continuous range of contexts
    columns : the conditions under the reference and in the worst distribution, per column
    evaluation : the evaluation of this action that reduces `ignorance` most; None if there is none
    untried : the cost of conditions in which the action is untried (`drbo.rounds.checked.Gap`)
    unit : of the outcome; None if not given
    corner : a sentence, if a small share of the mass at the edge of the past makes the worst case; otherwise empty
    """

    expected: float
    value: float
    shift: float
    ignorance: float
    left_open: float
    columns: tuple[AnyColumn, ...]
    evaluation: NextEvaluation | None
    untried: float = 0.0
    unit: str | None = None
    corner: str = ""

    def __str__(self) -> str:
        return "\n".join([*self.parts(), *self.conditions(), *self.advice()])

    def parts(self) -> list[str]:
        """Return the parts of the distance between expectation and bound as text."""
        if math.isnan(self.expected):
            return ["no outcome has been told yet: the model knows nothing about this action"]
        distance = self.shift + self.ignorance + self.left_open + self.untried
        lines = [
            f"the model expects {in_unit(self.expected, self.unit)} on average under the reference",
            f"the bound is worse than this by {in_unit(distance, self.unit)}:",
            f"{self.shift:12.4g}  for a shift of the conditions",
            f"{self.ignorance:12.4g}  for the model's uncertainty",
        ]
        if self.untried > 1e-3 * abs(distance):
            lines.append(f"{self.untried:12.4g}  for untried conditions")
        if self.left_open > 1e-3 * abs(distance):
            lines.append(f"{self.left_open:12.4g}  for conditions that the search did not settle")
        return lines

    def conditions(self) -> list[str]:
        """Return the worst distribution beside the reference, as text."""
        if all(column.reference == column.worst for column in self.columns):
            return ["no shift of the conditions makes this action worse than under the reference"]
        indent = max((len(printable(column.name)) for column in self.columns), default=0) + 2
        numbers = any(column.numeric for column in self.columns)
        heads = "".join(f"{head:>11}" for head in ("mean", "std. dev.", "5%", "median", "95%"))
        header = f"  {'':<{indent}}{'':9}{heads}".rstrip()
        lines = ["the worst distribution for this action, beside the reference:"]
        lines += [header] if numbers else []
        lines += [line for column in self.columns for line in column.lines(indent)]
        return [*lines, wrapped(self.corner)] if self.corner else lines

    def advice(self) -> list[str]:
        """Return the most informative evaluation as text; nothing if there is none."""
        if self.evaluation is None:
            return []
        where = f"the most informative next evaluation of this action is in {named('context', self.evaluation.context)}"
        if math.isfinite(self.value) and f"{self.evaluation.value:.4g}" != f"{self.value:.4g}":
            where += f": if its outcome is as expected, the bound moves from {self.value:.4g} to "
            where += in_unit(self.evaluation.value, self.unit)
        return [wrapped(where)]


def summary(
    name: str, values: Sequence[Any], labelled: bool, p: FloatArray, w: FloatArray
) -> NumberColumn | LabelColumn:
    """Return a column with values (n,) under the reference p (n,) and in the worst distribution w (n,)."""
    if is_number(values) and not labelled:
        column = np.array(values, dtype=float)
        return NumberColumn(name, Spread.of(column, p), Spread.of(column, w))
    shares: dict[Any, list[float]] = {}
    for value, *both in zip(values, p.tolist(), w.tolist(), strict=True):
        total = shares.setdefault(value, [0.0, 0.0])
        total[0], total[1] = total[0] + both[0], total[1] + both[1]
    return LabelColumn(name, tuple(shares), *(tuple(total[i] for total in shares.values()) for i in (0, 1)))


def named(kind: str, value: Any) -> str:
    """Return an action or a context as text; a value without names begins with its kind: "context old"."""
    return readable(value) if isinstance(value, dict) else f"{kind} {readable(value)}"


def readable(value: Any) -> str:
    """Return an action or a context as text."""
    if isinstance(value, dict):
        return words(value)
    if isinstance(value, np.ndarray):
        return ", ".join(text(item) for item in value.tolist())
    return printable(text(value))  # a label


def wrapped(text: str, indent: str = "  ") -> str:
    """Return a text wrapped at `WIDTH` characters, with a hanging indent."""
    start = text[: len(text) - len(text.lstrip())]
    filler = textwrap.TextWrapper(WIDTH, start, indent, break_long_words=False, break_on_hyphens=False)
    return filler.fill(text.strip())
