"""The figures of the page: marks on two axes, with titles, ticks and a legend, as HTML that needs no script.

The browser lays out the text: labels wrap, and the marks fill the rest of the figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.report.marks import (
    BLUE,
    ORANGE,
    Band,
    Bars,
    Key,
    Line,
    Mark,
    Points,
    escaped,
    percent,
)  # fmt: skip
from drbo.report.scales import Labels, Numbers, Percentages, Scale
from drbo.spaces.space import is_number, text

_BESIDE, _TURNED = 8, 20
"""Largest numbers of horizontal and of rotated labels; further labels are omitted."""
_LOW, _AROUND, _LINE = 300, 80, 15
"""Heights in pixels: least height of a figure, margins above and below the marks, and a line of text."""


@dataclass(frozen=True)
class Axis:
    """The title of an axis, its kind of scale, and its padding at each end as a share of the range."""

    title: str
    kind: type[Scale] = Numbers
    pad: float = 0.05


@dataclass(frozen=True)
class Figure:
    """Marks on two axes, with an alternative text; `size` is a CSS class of the page."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    alt: str
    size: str = ""
    height: int | None = None

    def scales(self) -> tuple[Scale, Scale]:
        """Return the scales of the two axes, which cover all marks."""
        both = zip(*(mark.values() for mark in self.marks), strict=True)
        found = [[value for part in parts for value in part] for parts in both] or [[], []]
        return self.x.kind.over(found[0], self.x.pad), self.y.kind.over(found[1], self.y.pad)

    def markup(self, key: str) -> str:
        """Return the figure as an HTML element with the id `key`."""
        x, y = self.scales()
        height = f' style="height: {self.height}px"' if self.height else ""
        lines = [f'<line x1="{percent(at)}" x2="{percent(at)}" y2="100%"/>' for at, _ in x.ticks() if x.ruled]
        lines += [f'<line x2="100%" y1="{percent(1 - at)}" y2="{percent(1 - at)}"/>' for at, _ in y.ticks() if y.ruled]
        drawn = "".join(mark.svg(x, y) for mark in self.marks)
        room = ((self.height or _LOW) - _AROUND) // _LINE
        return (
            f'<div class="figure {self.size}" id="{key}" role="img" aria-label="{escaped(self.alt)}"{height}>'
            f'<div class="title up">{escaped(self.y.title)}</div><div class="names up">{_up(y, room)}</div>'
            f'<svg class="marks"><g class="lines">{"".join(lines)}</g>{drawn}</svg>'
            f"{''.join(mark.scale() for mark in self.marks)}"
            f'{_across(x)}<div class="title across">{escaped(self.x.title)}</div></div>'
        )


def legend(figures: Sequence[Figure]) -> str:
    """Return a shared legend of figures as HTML, with each kind of mark once. It wraps on a narrow page."""
    found: dict[str, Key] = {}
    for key in (mark.key for one in figures for mark in one.marks):
        if key is not None:
            found.setdefault(key.name, key)
    entries = []
    for key in found.values():
        kind, inner = (f"stroke {key.symbol}", "") if key.symbol.isalpha() else ("mark", key.symbol)
        entries.append(f'<li><span class="{kind}" style="color: {key.color}">{inner}</span> {key.name}</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>'


def along(
    x: Sequence[Any], curves: Sequence[tuple[str, str, Sequence[float], Sequence[float], Sequence[float]]]
) -> list[Mark]:
    """Return curves with bands along an axis of numbers, or points with error bars along one of labels.

    A curve is its name, its colour, its values, and its lower and upper bounds.
    """
    marks: list[Mark] = []
    for i, (name, color, middle, low, high) in enumerate(curves):
        if is_number(x):
            marks += [Band(x, low, high, color), Line(x, middle, name, color)]
        else:
            shift = 0.2 * (i - 0.5 * (len(curves) - 1)) / len(x)
            marks.append(Points(x, middle, name, color, low=low, high=high, shift=shift))
    return marks


def beside(name: str, values: Sequence[Any], reference: Sequence[float], worst: Sequence[float]) -> Figure:
    """Return the distribution of one condition under the reference and in the worst case."""
    alt = f"distribution of {name} under the reference and in the worst case"
    both = (("reference", BLUE, reference), ("worst case", ORANGE, worst))
    if not is_number(values):
        labels = list(dict.fromkeys(values))
        marks = []
        for i, (label, color, weights) in enumerate(both):
            mass = dict.fromkeys(labels, 0.0)
            for value, weight in zip(values, weights, strict=True):
                mass[value] += weight
            marks.append(Bars(labels, list(mass.values()), label, color, 0.1 + 0.4 * i, 0.5 + 0.4 * i))
        return Figure(marks, Axis(name, Labels), Axis("share", Percentages), alt, "half")
    column = np.array(values, dtype=float)
    used = (np.array(reference) > 0.0) | (np.array(worst) > 0.0)
    low, high = float(column[used].min()), float(column[used].max())
    edges = np.linspace(low, high if high > low else low + 1.0, 21)
    centres = (0.5 * (edges[1:] + edges[:-1])).tolist()
    marks = []
    for label, color, weights in both:
        share, _ = np.histogram(column, bins=edges, weights=np.array(weights))
        marks.append(Bars(centres, share.tolist(), label, color, opacity=0.65))
    return Figure(marks, Axis(name), Axis("share", Percentages), alt, "half")


def plane(names: Sequence[str], columns: Sequence[Sequence[float]], weights: Sequence[tuple[str, Any]]) -> Figure:
    """Return a figure of two conditions: one disc per context, with an area proportional to its mass."""
    marks = []
    largest = max(float(np.max(mass)) for _, mass in weights)
    for (label, mass), color in zip(weights, (BLUE, ORANGE), strict=True):
        some = [i for i, share in enumerate(mass) if share > 1e-6]
        x, y = ([column[i] for i in some] for column in columns)
        sizes = [40.0 * math.sqrt(mass[i] / largest) for i in some]
        hints = [f"{label}: {text(a)}, {text(b)}: {mass[i]:.1%}" for a, b, i in zip(x, y, some, strict=True)]
        marks.append(Points(x, y, label, color, sizes=sizes, opacity=0.55, hints=hints))
    return Figure(marks, Axis(names[0]), Axis(names[1]), f"{names[0]} and {names[1]}: mass by area", "wide")


def _up(scale: Scale, room: int) -> str:
    """Return at most `room` names along a vertical axis."""
    return "".join(
        f'<span style="top: {percent(1.0 - at)}">{escaped(name)}</span>' for at, name in _some(scale.ticks(), room)
    )


def _across(scale: Scale) -> str:
    """Return the names along a horizontal axis; each label has its own column."""
    if scale.ruled:
        names = "".join(f'<span style="left: {percent(at)}">{escaped(name)}</span>' for at, name in scale.ticks())
        return f'<div class="names across">{names}</div>'
    ticks = scale.ticks()
    turned = " turned" if len(ticks) > _BESIDE else ""
    shown = dict(_some(ticks, _TURNED))
    names = "".join(f"<span>{escaped(shown.get(at, ''))}</span>" for at, _ in ticks)
    return f'<div class="names labels{turned}">{names}</div>'


def _some(ticks: list[tuple[float, str]], room: int) -> list[tuple[float, str]]:
    """Return at most `room` ticks, evenly chosen."""
    return ticks[:: math.ceil(len(ticks) / room)] if ticks else []
