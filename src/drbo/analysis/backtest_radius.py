"""How often each rule for the radius would have held in the past: a rolling origin.

At each origin only the contexts before it are known. They give the reference, and each rule its radius. The contexts
that followed are then compared with the reference: a radius held if they lay inside the set.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drbo import validation
from drbo._messages import counted, printable, require
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.mmd import MMD
from drbo.contexts.nature import Indices
from drbo.contexts.sampled_contexts import contexts_of
from drbo.rounds.radius_rules import RadiusRule, as_rule
from drbo.spaces.samples import Samples
from drbo.spaces.times import covered, read_duration
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["backtest_radius"]

_ORIGINS = 50
"""Largest number of origins; evenly spaced ones if there are more."""


@dataclass(frozen=True, eq=False)
class RadiusBacktest:
    """How far the next contexts were from the past, and the radius of each rule before them; `str` gives a table.

    Attributes
    ----------
    rules : k names of rules
    origins : (m,) the number of contexts that were known at each origin
    horizon : (m,) the number of contexts that followed
    distances : (m,) the distance between the next contexts and the reference
    radii : (k, m) the radius of each rule; nan where a rule has no answer yet
    losses : (k,) the loss of the optimizer's bound at the median radius against radius 0; nan without an optimizer
    years : the years that the whole past covers; None if its times are not known
    """

    rules: tuple[str, ...]
    origins: Indices
    horizon: Indices
    distances: FloatArray
    radii: FloatArray
    losses: FloatArray
    years: float | None = None

    @property
    def held(self) -> FloatArray:
        """The share of the origins with an answer at which each rule held, (k,); nan if there is none."""
        known = np.isfinite(self.radii) | np.isinf(self.radii)
        inside = known & (self.distances <= self.radii * (1.0 + 1e-12))
        with np.errstate(invalid="ignore"):
            return np.asarray(inside.sum(axis=1) / known.sum(axis=1))

    @property
    def answers(self) -> Indices:
        """The number of origins at which each rule has an answer, (k,)."""
        return np.asarray((~np.isnan(self.radii)).sum(axis=1))

    @property
    def median(self) -> FloatArray:
        """The median radius of each rule, (k,); nan if it has no answer."""
        return np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else math.nan for row in self.radii])

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per rule."""
        columns = (self.rules, self.held.tolist(), self.median.tolist(), self.answers.tolist(), self.losses.tolist())
        names = ("rule", "held", "median_radius", "origins", "loss")
        made = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if np.isnan(self.losses).all():
            for row in made:
                del row["loss"]
        return made

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per rule."""
        return require("pandas", "frame").DataFrame.from_records(self.rows())

    def __str__(self) -> str:
        width = max(len(name) for name in ("rule", *self.rules))
        priced = not np.isnan(self.losses).all()
        heads = f"{'rule':<{width}}  {'held':>12}  {'median radius':>13}" + (f"  {'loss':>8}" if priced else "")
        lines = [
            f"Of {len(self.distances)} stretches of the past, each compared with all that was known before it "
            f"(median distance {np.median(self.distances):.3g}):",
            heads,
        ]
        for name, held, median, known, loss in zip(
            self.rules, self.held, self.median, self.answers, self.losses, strict=True
        ):
            share = f"{round(held * known)} of {known}" if known else "no answer"
            cost = "" if not priced else f"  {loss:>8.3g}"
            lines.append(f"{name:<{width}}  {share:>12}  {median:>13.3g}{cost}")
        if self.years is not None:
            lines.append(covered(self.years))
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self) -> Figure:
        """Return a matplotlib figure: the distances and the radii against the number of contexts known."""
        figure = require("matplotlib.figure", "plot").Figure(figsize=(7.0, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(self.origins, self.distances, "ko", label="distance of what followed")
        for name, row in zip(self.rules, self.radii, strict=True):
            axes.plot(self.origins, np.where(np.isinf(row), np.nan, row), label=printable(name))
        axes.set(xlabel="contexts known", ylabel="radius")
        axes.legend()
        made: Figure = figure
        return made


def backtest_radius(
    samples: Samples,
    ambiguity: AmbiguitySet | None,
    rules: Mapping[str, RadiusRule | float] | Sequence[RadiusRule | float] | RadiusRule | float,
    *,
    horizon: int | str,
    first: int | str | None = None,
    optimizer: Any = None,
) -> RadiusBacktest:
    """Return how often each rule for the radius would have held in the past, and at what median radius.

    Parameters
    ----------
    samples : past conditions, oldest first
    ambiguity : the set; None for an MMD, the optimizer's default
    rules : rules of `drbo.radius` and numbers: one, a sequence, or a mapping from names
    horizon : how far ahead the radius must hold: a number of contexts or, if samples have times, a duration such as
        "90D". Origins are one horizon apart, at most 50 of them
    first : the shortest past at an origin, in the same units as `horizon`; the default is a year if samples have
        times that cover two years, otherwise a third of the samples
    optimizer : an `Optimizer` with outcomes: the table then has the loss of its bound at each median radius
    """
    validation.of_kind("samples", samples, Samples, "Samples of past conditions")
    family = MMD() if ambiguity is None else ambiguity
    validation.of_kind("ambiguity", family, AmbiguitySet, "an ambiguity set")
    named = _named(rules)
    stretches = _stretches(samples, horizon, first)
    distances, radii = np.empty(len(stretches)), np.full((len(named), len(stretches)), math.nan)
    for i, (origin, after) in enumerate(counted(stretches, len(stretches), "origins of the past")):
        past = samples.rows(np.arange(origin))
        distances[i] = _distance(past, samples.rows(np.arange(origin, after)), family)
        for k, rule in enumerate(named.values()):
            radii[k, i] = _answer(rule, past, family)
    origins, ends = np.array(stretches, dtype=np.intp).T
    made = RadiusBacktest(
        tuple(named), origins, ends - origins, distances, radii, np.full(len(named), math.nan), samples.years
    )
    if optimizer is None:
        return made
    losses = _losses(optimizer, made.median)
    return RadiusBacktest(made.rules, origins, ends - origins, distances, radii, losses, samples.years)


def _named(rules: Any) -> dict[str, RadiusRule]:
    """Return the rules by name: a mapping's own names, otherwise their text."""
    if isinstance(rules, Mapping):
        named = {str(name): as_rule(f"rules[{name!r}]", one) for name, one in rules.items()}
    else:
        several = rules if isinstance(rules, Sequence) and not isinstance(rules, str) else [rules]
        made = [(one, as_rule(f"rules[{i}]", one)) for i, one in enumerate(several)]
        named = {_text(given): rule for given, rule in made}
    if not named:
        raise ValueError("rules must hold at least one rule, got none")
    return named


def _text(rule: Any) -> str:
    """Return a rule as text: its name and the arguments that differ from the defaults."""
    if not isinstance(rule, RadiusRule):
        return f"{float(rule):g}"
    fields = getattr(type(rule), "__dataclass_fields__", {})
    changed = [f"{name}={getattr(rule, name)!r}" for name, one in fields.items() if getattr(rule, name) != one.default]
    return f"{type(rule).__name__}({', '.join(changed)})"


def _stretches(samples: Samples, horizon: Any, first: Any) -> list[tuple[int, int]]:
    """Return the origins and the ends of the stretches that follow them, as numbers of contexts."""
    n, time = len(samples.points), samples.time

    def count(name: str, given: Any, start: int) -> int:
        """Return the number of contexts of a stretch that begins at `start`."""
        if not isinstance(given, str):
            return validation.whole_number(name, given, least=1)
        if time is None:
            raise TypeError(f"{name} must be a number of contexts where samples have no times, got {given!r}")
        return int(np.searchsorted(time, time[start] + read_duration(name, given))) - start

    if first is None:
        first = "1Y" if samples.years is not None and samples.years >= 2.0 else max(n // 3, 2)
    origin, found = count("first", first, 0), []
    while origin < n:
        after = origin + max(count("horizon", horizon, origin), 1)
        complete = after < n if isinstance(horizon, str) else after <= n
        if not complete and not (isinstance(horizon, str) and after == n and _reaches_end(samples, origin, horizon)):
            break
        found.append((origin, after))
        origin = after
    if not found:
        raise ValueError(
            f"horizon={horizon!r} does not fit after the first {count('first', first, 0)} of {n} contexts: give a "
            "shorter horizon, or a smaller first"
        )
    if len(found) > _ORIGINS:
        found = [found[i] for i in np.unique(np.linspace(0, len(found) - 1, _ORIGINS).astype(int))]
    return found


def _reaches_end(samples: Samples, origin: int, horizon: str) -> bool:
    """Return whether the last stretch is complete: the past ends within a usual step of its end."""
    assert samples.time is not None
    pace = float(np.median(np.diff(samples.time)))
    return float(samples.time[-1]) + 1.5 * pace >= float(samples.time[origin]) + read_duration("horizon", horizon)


def _distance(past: Samples, following: Samples, ambiguity: AmbiguitySet) -> float:
    """Return the distance between the next contexts and the reference of the past, as an optimizer measures it.

    A label that the past does not have is infinitely far away.
    """
    family = ambiguity.with_columns(past.space.columns)
    reference = contexts_of(past, family).seen([])
    used = reference.weights > 0.0
    values = following.space.decode_all(following.points)
    try:
        came = np.array([past.encode("samples", value).coordinates for value in values])
    except ValueError:
        return math.inf
    points, inverse = np.unique(np.concatenate([reference.points[used], came]), axis=0, return_inverse=True)
    at, n = inverse.ravel(), int(used.sum())
    placed = family.on(past.space.measured(points), past.space.scales)
    p = np.bincount(at[:n], weights=reference.weights[used], minlength=len(points))
    return placed.distance(np.bincount(at[n:], weights=following.weights, minlength=len(points)), p)


def _answer(rule: RadiusRule, past: Samples, ambiguity: AmbiguitySet) -> float:
    """Return the radius of a rule for a past; nan if the past is too short for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the result says how much of a year the whole past covers
        try:
            return rule.lenient.for_samples(past, ambiguity)  # rules that would be refused are judged
        except ValueError:  # too few seasons
            return math.nan


def _losses(optimizer: Any, radii: FloatArray) -> FloatArray:
    """Return the loss (k,) of the best bound of an optimizer at each radius against radius 0; nan for no radius."""
    if not hasattr(optimizer, "under"):
        raise TypeError(f"optimizer must be an Optimizer with outcomes, got {optimizer!r}")
    at_reference = optimizer.under(radius=0.0).recommend()
    sign = 1.0 if at_reference.maximize else -1.0
    return np.array(
        [
            math.nan if math.isnan(radius) else sign * (at_reference.value - optimizer.recommend(radius=radius).value)
            for radius in radii.tolist()
        ]
    )
