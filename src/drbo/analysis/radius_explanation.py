"""What a radius means, told: the shifts, relabelled and likelier days and windows of the past that are as far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_DISTINCT = 0.2
"""From this autocorrelation on, neighbouring days are said to resemble each other."""


@dataclass(frozen=True)
class Shift:
    """How far all days must move in one column, for a distribution that is as far away as the radius.

    Attributes
    ----------
    column : the name of the column
    amount : in the user's units, downwards or upwards alike; the factor of a logarithmic column, above 1; None if no
        shift is that far
    furthest : how far a shift by four times the range of the column is: no smaller one is further
    logarithmic : whether the amount is a factor
    """

    column: str
    amount: float | None
    furthest: float
    logarithmic: bool

    def __str__(self) -> str:
        if self.amount is None:
            return f"no shift of {self.column} is that far: the furthest is {self.furthest:.3g} away"
        if self.logarithmic:
            down, up = 1.0 - 1.0 / self.amount, self.amount - 1.0
            return f"every day's {self.column} lower by {down:.0%}, or higher by {up:.0%}"
        return f"every day's {self.column} lower by {self.amount:.3g}, or higher by as much"


@dataclass(frozen=True)
class Relabelled:
    """Which share of all days must turn to one label, for a distribution that is as far away as the radius.

    Attributes
    ----------
    column, label : what the days turn to
    share : of all days, chosen alike among all of them; None if turning every day is not that far
    furthest : how far it is to turn every day
    """

    column: str
    label: Any
    share: float | None
    furthest: float

    def __str__(self) -> str:
        if self.share is None:
            return f"not even {self.column} = {self.label} on every day, which is {self.furthest:.3g} away"
        return f"{self.share:.0%} of the days turned to {self.column} = {self.label}"


@dataclass(frozen=True)
class Likelier:
    """How much likelier the set makes the worst days.

    Attributes
    ----------
    share : how many of the days are that bad under the reference
    most : how many of them may be that bad in a distribution of the set
    """

    share: float
    most: float

    def __str__(self) -> str:
        times = self.most / self.share
        return f"the worst {self.share:.0%} of days up to {times:.3g} times as likely ({self.most:.1%} of all days)"


@dataclass(frozen=True)
class Window:
    """Days of the past, and how far they were from as many days before them.

    Attributes
    ----------
    start, stop : the positions of the first day, and of the first day after them
    distance : from the days before
    """

    start: int
    stop: int
    distance: float


@dataclass(frozen=True)
class RadiusExplanation:
    """What a radius means. `str` gives the text.

    Attributes
    ----------
    radius, diameter : the diameter is the radius from which on the set holds everything that it can
    within : which distributions the set holds, in words
    means : what the radius is a number of, as a sentence; empty where `within` says it all
    shifts : per column of numbers, the shift that is as far as the radius; empty if the set knows no positions
    relabelled : per label of a column, the share of days turned to it
    replaced : the share of days that may be replaced by anything, if the set is of that kind
    likelier : how much likelier the set makes bad days, if the set does not know which days are near each other
    stays : whether only days that were seen can happen in the set
    window : how many days a window of the past has; 0 if there are too few days, if they are not in the order of time,
        or if the set cannot compare them
    windows : the windows of the past, in the order of time
    by_chance : the share of windows, drawn at random from the whole past, that are further from each other than the
        radius; nan without windows
    resemblance : the autocorrelation of one day with the next; nan without windows
    """

    radius: float
    diameter: float
    within: str
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

    @property
    def share(self) -> float:
        """Where the radius lies between 0 and the diameter: 0 is the reference alone, 1 or more everything."""
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
        first = f"Radius {self.radius:.3g}: every distribution {self.within}." + (self.means and f"\n{self.means}")
        if self.means and self.radius == 0.0:
            return [first]
        if self.diameter == 0.0:
            return [first, "The set holds nothing else, whatever the radius."]
        if self.radius >= self.diameter:
            return [first, f"That is everything: no distribution is further away than {self.diameter:.3g}."]
        share = "less than 1%" if 0.0 < self.share < 0.01 else f"{self.share:.0%}"
        way = f"It is {share} of the way from the reference to everything"
        return [first, f"{way}, which is {self.diameter:.3g} away."]

    def _examples(self) -> list[str]:
        """Return what is as far as the radius, and that the set holds worse."""
        if not 0.0 < self.radius < self.diameter:
            return []
        lines = [f"  {one}" for one in (*self.shifts, *self.relabelled)]
        if lines:
            lines.insert(0, "As far as the radius is, for example:")
            lines.append(
                "Such a shift is inside the set, at its border, as far as the contexts allow it; the set holds worse."
            )
        if self.replaced is not None:
            lines.append(f"{self.replaced:.0%} of the days may be replaced by any others, the worst there are.")
        if self.likelier:
            lines.append("The set holds distributions that make")
            lines += [f"  {one}" for one in self.likelier]
        if self.stays:
            lines.append("Only days that were seen can happen in it: a shift of all days is infinitely far away.")
        return lines

    def _past(self) -> list[str]:
        if not self.window:
            return []
        days, further = f"{self.window} days", self.exceeded
        lines = [
            f"Of {len(self.windows)} windows of {days} in the past, {len(further)} moved further than this from the "
            f"{days} before."
        ]
        lines += [f"  days {w.start} to {w.stop - 1}: {w.distance:.3g}" for w in further[:5]]
        if len(further) > 5:
            lines.append(f"  and {len(further) - 5} more")
        lines.append(f"Windows of {days} drawn at random from the whole past do so in {self.by_chance:.0%} of cases.")
        if self.resemblance > _DISTINCT:
            lines.append(
                f"One day resembles the next (autocorrelation {self.resemblance:.2f}): a rule that learns the radius "
                'needs block="auto".'
            )
        return lines
