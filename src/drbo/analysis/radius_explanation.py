"""The text of a radius's meaning: shifts, relabelled days, likelier days and windows of the past."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from drbo._messages import printable
from drbo.spaces.times import covered


def _down(value: float) -> str:
    """Return a positive number rounded down to three digits, so the printed shift is inside the set."""
    nearest = float(f"{value:.2e}")
    step = 10.0 ** (math.floor(math.log10(value)) - 2) if value > 0.0 else 0.0
    return f"{nearest if nearest <= value * (1.0 + 1e-7) else nearest - step:.3g}"


def _percent(share: float) -> str:
    """Return a share in percent, rounded down."""
    return f"{_down(100.0 * share)}%"


@dataclass(frozen=True)
class Shift:
    """The shift of all days in one column whose distance is the radius.

    Amounts are in the user's units. For a logarithmic column they are factors above 1.

    Attributes
    ----------
    column : the name of the column
    lower, higher : the shift down and up; None if no shift is that far; 0 (or the factor 1) if every shift breaks the
        bounds of the set
    furthest : the distance of a shift by four ranges of the column; no smaller shift is further
    logarithmic : whether the amounts are factors
    """

    column: str
    lower: float | None
    higher: float | None
    furthest: float
    logarithmic: bool

    @property
    def amount(self) -> float | None:
        """The smaller of both shifts; None if there is none."""
        return min((one for one in (self.lower, self.higher) if one is not None), default=None)

    def __str__(self) -> str:
        none = 1.0 if self.logarithmic else 0.0
        if self.lower is None and self.higher is None:
            return f"no shift of {printable(self.column)} is that far: the furthest is {self.furthest:.3g} away"
        if self.lower == self.higher == none:
            return f"no shift of {printable(self.column)}: each breaks the bounds"
        if self.lower == self.higher and not self.logarithmic:
            return f"every day's {printable(self.column)} lower by {_down(self.lower or 0.0)}, or higher by as much"
        ways, remark = [], ""
        for way, amount in (("lower", self.lower), ("higher", self.higher)):
            if amount is None or amount == none:
                remark = f"; no shift that makes it {way} {'is that far' if amount is None else 'keeps the bounds'}"
            elif self.logarithmic:
                ways.append(f"{way} by {_percent(1.0 - 1.0 / amount if way == 'lower' else amount - 1.0)}")
            else:
                ways.append(f"{way} by {_down(amount)}")
        return f"every day's {printable(self.column)} {', or '.join(ways) or 'as it is'}{remark}"


@dataclass(frozen=True)
class Relabelled:
    """The share of days that must turn to one label to reach the radius.

    Attributes
    ----------
    column, label : the column and the new label
    share : the share of random days; None if turning every day is not that far, 0 if every share breaks the bounds of
        the set
    furthest : the distance if every day turns; inf if the bounds break
    """

    column: str
    label: Any
    share: float | None
    furthest: float

    @property
    def _what(self) -> str:
        return printable(f"{self.column} = {self.label}")

    def __str__(self) -> str:
        if self.share is None:
            return f"not even {self._what} on every day, which is {self.furthest:.3g} away"
        if self.share == 0.0:
            return f"none of the days turned to {self._what}: any share is outside of the set"
        return f"{_percent(self.share)} of the days turned to {self._what}"


@dataclass(frozen=True)
class Likelier:
    """The increase of the worst days' probability in the set.

    Attributes
    ----------
    share : the share of days that are this bad under the reference
    most : the largest share of such days in a distribution of the set
    """

    share: float
    most: float

    def __str__(self) -> str:
        times = self.most / self.share
        return f"the worst {self.share:.0%} of days up to {times:.3g} times as likely ({self.most:.1%} of all days)"


@dataclass(frozen=True)
class Window:
    """A window of past days, and its distance from as many days before.

    Attributes
    ----------
    start, stop : the positions of its first day, and of the first day after it
    distance : the distance from the days before
    """

    start: int
    stop: int
    distance: float


@dataclass(frozen=True)
class RadiusExplanation:
    """The meaning of a radius; `str` gives the text.

    Attributes
    ----------
    radius, diameter : the radius, and the radius beyond which the set stops growing
    set_words : the distributions of the set, in words
    means : the unit of the radius as a sentence; empty if `set_words` says it
    shifts : per numeric column, the shift at the radius; empty if the set does not use positions
    relabelled : per label of a column, the share of days turned to it
    replaced : the share of days that may be replaced by anything; None for other kinds of sets
    likelier : the increase of bad days' probability, if the set does not use distances between days
    stays : whether the set holds only days that were seen
    window : number of days per window; 0 if there are too few days, if they have no order, or if the set cannot compare
        them
    windows : the windows of the past, oldest first
    by_chance : the share of random pairs of windows that are further apart than the radius; nan without windows
    resemblance : the autocorrelation of one day with the next; nan without windows
    block : the number of days that resemble each other, by which `Bootstrap` refuses independent resamples; 1 if none
    years : the years that the past covers; None if its times are not known
    """

    radius: float
    diameter: float
    set_words: str
    means: str
    shifts: tuple[Shift, ...]
    relabelled: tuple[Relabelled, ...]
    replaced: float | None
    likelier: tuple[Likelier, ...]
    stays: bool
    window: int
    windows: tuple[Window, ...]
    by_chance: float
    resemblance: float
    block: int
    years: float | None = None

    @property
    def share(self) -> float:
        """The radius as a share of the diameter: 0 is the reference alone, 1 or more the largest set."""
        if self.diameter > 0.0:
            return self.radius / self.diameter
        return 0.0 if self.radius == 0.0 else math.inf

    @property
    def exceeded(self) -> tuple[Window, ...]:
        """The windows of the past that moved further than the radius."""
        return tuple(window for window in self.windows if window.distance > self.radius)

    def __str__(self) -> str:
        return "\n".join([*self._size(), *self._examples(), *self._past()])

    def _size(self) -> list[str]:
        first = f"Radius {self.radius:.3g}: every distribution {self.set_words}." + (self.means and f"\n{self.means}")
        if self.means and self.radius == 0.0:
            return [first]
        if self.diameter == 0.0:
            return [first, "The set holds nothing else, whatever the radius."]
        if self.radius >= self.diameter:
            return [first, f"That is everything: no distribution is further away than {self.diameter:.3g}."]
        share = "less than 1%" if 0.0 < self.share < 0.01 else f"{self.share:.0%}"
        return [first, f"The largest possible shift is {self.diameter:.3g}; this radius is {share} of it."]

    def _examples(self) -> list[str]:
        """Return the examples of shifts at the radius as text."""
        if not 0.0 < self.radius < self.diameter:
            return []
        lines = [f"  {one}" for one in (*self.shifts, *self.relabelled)]
        if lines:
            lines.insert(0, "Shifts of this size, for example:")
            lines.append("Shifts of this size are covered, and so are others that hurt more.")
        if self.replaced is not None:
            lines.append(f"{_percent(self.replaced)} of the days may be replaced by the worst possible days.")
        if self.likelier:
            lines.append("Some distributions of the set make")
            lines += [f"  {one}" for one in self.likelier]
        if self.stays:
            lines.append("Only days that were seen can happen: a shift of all days is infinitely far away.")
        return lines

    def _past(self) -> list[str]:
        seen = [] if self.years is None else [covered(self.years)]
        if not self.window:
            return seen
        days, further = f"{self.window} days", self.exceeded
        lines = [
            f"Of {len(self.windows)} windows of {days} in the past, {len(further)} moved further than this from the "
            f"{days} before."
        ]
        lines += [f"  days {w.start} to {w.stop - 1}: {w.distance:.3g}" for w in further[:5]]
        if len(further) > 5:
            lines.append(f"  and {len(further) - 5} more")
        lines.append(f"Windows of {days} drawn at random from the whole past do so in {self.by_chance:.0%} of cases.")
        if self.block > 1:
            lines.append(f"One day resembles the next (autocorrelation {self.resemblance:.2f}).")
            if len(further) <= self.by_chance * len(self.windows):
                lines.append('A rule for the radius needs block="auto".')
            else:
                lines += [
                    'A rule with block="auto" treats such runs as chance, but the past moved further than that.',
                    "`drbo.backtest_radius` says which rule would have held.",
                ]
        return lines + seen
