"""The figures of the page: marks on two axes, with titles, ticks and a legend, as HTML and SVG that need no script.

The browser lays out the text: labels wrap, and the marks fill the rest of the figure. All user text is escaped.

The page's script shows the numbers behind a mark under the mouse and by keyboard. It reads them from the page: the
place of a mark, the scale of each axis, and for marks of results the rows of the table.
"""

from __future__ import annotations

import base64
import html
import json
import math
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from drbo.report.scales import Numbers, Scale, edges, pixels
from drbo.validation import FloatArray


def escaped(value: Any) -> str:
    """Return a value escaped for an HTML element or attribute.

    HTML has no character 0, and keeps a carriage return only as a character reference.
    """
    return html.escape(str(value)).replace("\0", "\ufffd").replace("\r", "&#13;")


_BESIDE, _TURNED = 8, 20
"""Largest numbers of horizontal and of rotated labels; further labels are omitted."""
_LOW, _AROUND, _LINE = 300, 80, 15
"""Heights in pixels: least height of a figure, margins above and below the marks, and a line of text."""
BLUE, ORANGE, GREEN, GREY, RED = "#3b8fc4", "#e08a00", "#159a77", "#8a8f98", "#d1542c"
"""The colours of Okabe and Ito, safe for colour-blind readers and readable on white and on black."""
LITTLE_TO_MUCH = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
"""Evenly spaced colours of the Cividis map, safe for colour-blind readers."""
MOST_POINTS = 2000
"""Largest number of points of one series that are drawn."""
_MANY = 500
"""Largest number of points that are single elements; more points are drawn as one path."""
_LEVELS = 36**2
"""Number of levels of a cell's value for the script: two digits of base 36."""
_SYMBOLS = {
    "disc": ("●", ""),
    "bar": ("■", ""),
    "star": ("★", "M0-8 1.9-2.6 7.6-2.5 3.1 1 4.7 6.5 0 3.2-4.7 6.5-3.1 1-7.6-2.5-1.9-2.6Z"),
    "cross": ("✕", "M-4-2.6-2.6-4 0-1.4 2.6-4 4-2.6 1.4 0 4 2.6 2.6 4 0 1.4-2.6 4-4 2.6-1.4 0Z"),
    "diamond": ("◇", "M0-5 5 0 0 5-5 0ZM0-2.6-2.6 0 0 2.6 2.6 0Z"),
}
"""Characters and outlines of symbols."""
_DASHES = {"solid": "none", "dash": "8 6", "dot": "2 5"}


class Mark(ABC):
    """An element of a figure; in the legend it has its name, its colour, and its dash or symbol."""

    kind: ClassVar[str]
    x: Any
    y: Any
    name: str
    color: str
    dash: str
    symbol: str

    def data(self) -> dict[str, str]:
        """Return what the script must know beside the places of the mark, by name."""
        return {}

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the values that the two axes must cover."""
        return self.x, self.y

    @abstractmethod
    def svg(self, x: Scale, y: Scale) -> str:
        """Return the mark on two axes."""

    def scale(self) -> str:
        """Return the colour scale as HTML; empty if there is none."""
        return ""


@dataclass(frozen=True)
class Dots(Mark):
    """Discs or other symbols at x (n,) and y (n,), with optional error bars from `low` to `high` (n,).

    `hints` (n,) are shown in place of the values. `rows` (n,) are the rows of the table of results that the points
    stand for. `shift` moves the points to the right by a share of the axis, so that two series at the same labels do
    not overlap. Of more than `MOST_POINTS` points every so many are drawn, the lowest and the highest among them, and
    the name says so.
    """

    kind: ClassVar[str] = "points"
    x: Sequence[Any]
    y: Sequence[Any]
    name: str
    color: str
    symbol: str = "disc"
    size: float = 7.0
    sizes: Sequence[float] = ()
    opacity: float = 1.0
    edge: str | None = None
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    hints: Sequence[str] = ()
    rows: Sequence[int] = ()
    shift: float = 0.0
    dash = ""

    def __post_init__(self) -> None:
        n = len(self.x)
        if n <= MOST_POINTS:
            return
        y = np.asarray(self.y, dtype=float)
        kept = np.unique([*np.linspace(0, n - 1, MOST_POINTS).astype(int), np.argmin(y), np.argmax(y)]).tolist()
        for name in ("x", "y", "sizes", "low", "high", "hints", "rows"):
            values = getattr(self, name)
            object.__setattr__(self, name, [values[i] for i in kept] if len(values) else values)
        object.__setattr__(self, "name", f"{self.name} ({len(kept):,} of {n:,} shown)")

    def data(self) -> dict[str, str]:
        if self.rows:
            return {"rows": _ranges(self.rows)}
        return {"hints": json.dumps(list(self.hints))} if self.hints else {}

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.x, [*self.y, *self.low, *self.high]

    def svg(self, x: Scale, y: Scale) -> str:
        """Return a disc or a symbol per point; many discs are one path."""
        across, up = x.at(self.x) + self.shift, y.at(self.y)
        drawn = ""
        if len(self.low):
            bars = zip(across, y.at(self.low), y.at(self.high), strict=True)
            path = "".join(f"M{_to(a, low)}L{_to(a, high)}" for a, low, high in bars)
            drawn = _stroke(path, self.color, 1.0, kind="errors")
        if self.symbol == "disc" and not self.sizes and (self.edge or len(across) > _MANY):
            dots = "".join(f"M{_to(a, b)}h0" for a, b in zip(across, up, strict=True))
            return drawn + self._dots(dots)
        sizes = self.sizes or [self.size] * len(across)
        marks = "".join(map(self._one, across.tolist(), up.tolist(), sizes))
        return f'{drawn}<g fill="{self.color}" fill-opacity="{self.opacity}">{marks}</g>'

    def _dots(self, path: str) -> str:
        """Return discs as one path, which is drawn twice if the discs have an edge."""
        if self.edge is None:
            return _stroke(path, self.color, self.size, opacity=self.opacity, kind="dots")
        key = f"dots-{zlib.crc32(path.encode()):x}"
        styles = ((self.edge, self.size + 2.0), (self.color, self.size))
        outer, inner = (f'stroke="{color}" stroke-width="{width:g}"' for color, width in styles)
        drawn = f'<g {outer}><path class="stroke dots" id="{key}" d="{path}"/></g><use href="#{key}" {inner}/>'
        return _stretched(drawn)

    def _one(self, across: float, up: float, size: float) -> str:
        left, top = percent(across), percent(1.0 - up)
        if self.symbol == "disc":
            return f'<circle cx="{left}" cy="{top}" r="{size / 2.0:.3g}"/>'
        return _symbol(left, top, self.symbol)


@dataclass(frozen=True)
class Strip(Mark):
    """Symbols at x (n,) above the figure: what has a place along the horizontal axis, and no value."""

    kind: ClassVar[str] = "strip"
    x: Sequence[float]
    name: str
    color: str
    symbol: str
    rows: Sequence[int] = ()
    dash = ""

    def data(self) -> dict[str, str]:
        return {"rows": _ranges(self.rows)} if self.rows else {}

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.x, []

    def svg(self, x: Scale, y: Scale) -> str:  # noqa: ARG002 - it has no height
        marks = "".join(_symbol(percent(at), "-10", self.symbol) for at in x.at(self.x).tolist())
        return f'<g fill="{self.color}">{marks}</g>'


@dataclass(frozen=True)
class Line(Mark):
    """A line through x (n,) and y (n,), without values that are not finite."""

    kind: ClassVar[str] = "line"
    x: Sequence[Any]
    y: Sequence[float]
    name: str
    color: str
    dash: str = "solid"
    width: float = 2.5

    def svg(self, x: Scale, y: Scale) -> str:
        return _stroke(_through(x.at(self.x), y.at(self.y)), self.color, self.width, self.dash)


@dataclass(frozen=True)
class Band(Mark):
    """The area between two lines, without values that are not finite."""

    kind: ClassVar[str] = "band"
    x: Sequence[Any]
    low: Sequence[float]
    high: Sequence[float]
    color: str
    name = ""  # not in the legend

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.x, [*self.low, *self.high]

    def svg(self, x: Scale, y: Scale) -> str:
        across, low, high = x.at(self.x), y.at(self.low), y.at(self.high)
        known = np.isfinite(low) & np.isfinite(high)
        around = _through(np.r_[across[known], across[known][::-1]], np.r_[low[known], high[known][::-1]])
        return _stretched(f'<path d="{around}Z" fill="{self.color}" fill-opacity="0.2"/>') if known.any() else ""


@dataclass(frozen=True)
class Bars(Mark):
    """Bars from 0 to `sizes` (n,) at the places `at` (n,), vertical or horizontal.

    A place ends halfway to the next one; a bar fills it from the share `begin` to the share `end`.
    """

    kind: ClassVar[str] = "bars"
    at: Sequence[Any]
    sizes: Sequence[float]
    name: str
    color: str
    begin: float = 0.0
    end: float = 1.0
    opacity: float = 1.0
    upright: bool = True
    dash, symbol = "", "bar"

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return (self.at, self.sizes) if self.upright else (self.sizes, self.at)

    def svg(self, x: Scale, y: Scale) -> str:
        """Return a rectangle per bar."""
        places, lengths = (x, y) if self.upright else (y, x)
        ends = edges(places.at(self.at))
        drawn = []
        for i, length in enumerate(lengths.at(self.sizes).tolist()):
            width = (self.end - self.begin) * (ends[i + 1] - ends[i])
            start = ends[i] + self.begin * (ends[i + 1] - ends[i])
            box = (start, 1.0 - length, width, length) if self.upright else (0.0, 1.0 - start - width, length, width)
            left, top, across, down = map(percent, box)
            drawn.append(f'<rect x="{left}" y="{top}" width="{across}" height="{down}"/>')
        return f'<g fill="{self.color}" fill-opacity="{self.opacity}">{"".join(drawn)}</g>'


@dataclass(frozen=True)
class Cells(Mark):
    """Numbers z (m, n) at x (n,) and y (m,), as colours; a cell ends halfway to the next one. nan is blank."""

    kind: ClassVar[str] = "cells"
    x: Sequence[Any]
    y: Sequence[Any]
    z: FloatArray
    name: str = ""
    color: str = LITTLE_TO_MUCH[-1]
    dash, symbol = "", "bar"

    def _ends(self) -> Numbers:
        return Numbers.over(self.z[~np.isnan(self.z)].tolist(), 0.0)

    def data(self) -> dict[str, str]:
        """Return the numbers, row by row from below, as levels between the two ends."""
        ends = self._ends()
        levels = np.where(np.isnan(self.z), -1.0, np.rint(ends.at(self.z) * (_LEVELS - 1))).astype(int)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        cells = "".join("--" if one < 0 else digits[one // 36] + digits[one % 36] for one in levels.ravel().tolist())
        return {"z": cells, "columns": str(self.z.shape[1]), "low": f"{ends.low:.6g}", "high": f"{ends.high:.6g}"}

    def scale(self) -> str:
        ends = self._ends()
        names = "".join(f'<span style="top: {percent(1.0 - at)}">{name}</span>' for at, name in ends.ticks())
        colors = f"linear-gradient(to top, {', '.join(LITTLE_TO_MUCH)})"
        return f'<div class="scale"><div style="background: {colors}"></div><div class="names up">{names}</div></div>'

    def svg(self, x: Scale, y: Scale) -> str:
        """Return one image of all cells."""
        (left, right, columns), (low, high, rows) = pixels(x.at(self.x)), pixels(y.at(self.y))
        blank = np.isnan(self.z)
        shares = self._ends().at(np.where(blank, np.nanmin(self.z), self.z))
        anchors = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in LITTLE_TO_MUCH])
        steps = np.linspace(0.0, 1.0, len(anchors))
        colors = np.stack([np.interp(shares, steps, anchors[:, i]) for i in range(3)], axis=2).round().astype(np.uint8)
        colors[blank] = 255
        place = f'x="{percent(left)}" y="{percent(1.0 - high)}" width="{percent(right - left)}"'
        picture = _png(colors[np.ix_(rows[::-1], columns)])
        return f'<image {place} height="{percent(high - low)}" preserveAspectRatio="none" href="{picture}"/>'


@dataclass(frozen=True)
class Rule(Mark):
    """A vertical line at x over the whole height; the page's script moves it by its `id`."""

    kind: ClassVar[str] = "rule"
    x: float
    name: str
    color: str
    dash: str = "solid"
    id: str = ""

    def values(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return [self.x], []

    def svg(self, x: Scale, y: Scale) -> str:  # noqa: ARG002 - it has no height
        at = percent(float(x.at([self.x])[0]))
        style = f'stroke="{self.color}" stroke-width="2" stroke-dasharray="{_DASHES[self.dash]}"'
        return f'<line id="{self.id}" x1="{at}" x2="{at}" y1="0" y2="100%" {style}/>'


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

    @property
    def _class(self) -> str:
        strip = " strip" if any(isinstance(mark, Strip) for mark in self.marks) else ""
        return f"figure {self.size}{strip}"

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
        drawn = "".join(_marked(mark, x, y) for mark in self.marks)
        axes = escaped(json.dumps([{"title": a.title, **s.data()} for a, s in ((self.x, x), (self.y, y))]))
        room = ((self.height or _LOW) - _AROUND) // _LINE
        return (
            f'<div class="{self._class}" id="{key}" role="img" aria-label="{escaped(self.alt)}" '
            f'data-axes="{axes}"{height}>'
            f'<div class="title up">{escaped(self.y.title)}</div><div class="names up">{_up(y, room)}</div>'
            f'<svg class="marks"><g class="lines">{"".join(lines)}</g>{drawn}</svg>'
            f"{''.join(mark.scale() for mark in self.marks)}"
            f'{_across(x)}<div class="title across">{escaped(self.x.title)}</div></div>'
        )


def legend(figures: Sequence[Figure]) -> str:
    """Return a shared legend of figures as HTML, with each kind of mark once. It wraps on a narrow page."""
    found: dict[str, Mark] = {}
    for mark in (mark for one in figures for mark in one.marks if mark.name):
        found.setdefault(mark.name, mark)
    entries = []
    for mark in found.values():
        kind, inner = (f"stroke {mark.dash}", "") if mark.dash else ("mark", _SYMBOLS[mark.symbol][0])
        entries.append(f'<li><span class="{kind}" style="color: {mark.color}">{inner}</span> {escaped(mark.name)}</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _marked(mark: Mark, x: Scale, y: Scale) -> str:
    """Return a mark with what the script must know of it."""
    further = "".join(f' data-{name}="{escaped(value)}"' for name, value in mark.data().items())
    name = escaped(getattr(mark, "name", ""))
    return f'<g class="mark" data-kind="{mark.kind}" data-name="{name}"{further}>{mark.svg(x, y)}</g>'


def _ranges(rows: Sequence[int]) -> str:
    """Return ascending numbers as ranges: "0-15 17-30"."""
    steps = np.flatnonzero(np.diff(rows) != 1) + 1
    return " ".join(f"{part[0]}-{part[-1]}" for part in np.split(np.asarray(rows), steps) if len(part))


def _symbol(left: str, top: str, symbol: str) -> str:
    return f'<svg x="{left}" y="{top}"><path class="symbol" d="{_SYMBOLS[symbol][1]}"/></svg>'


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


def percent(share: float) -> str:
    """Return a share as a percentage for CSS and SVG."""
    return f"{100.0 * share:.5g}%"


def _to(across: float, up: float) -> str:
    """Return a position in an area of 1000 times 1000."""
    return f"{1000.0 * across:.5g} {1000.0 * (1.0 - up):.5g}"


def _through(across: FloatArray, up: FloatArray) -> str:
    """Return a path through the finite positions, with gaps at the others."""
    path, begun = [], False
    for a, b in zip(across.tolist(), up.tolist(), strict=True):
        known = math.isfinite(a) and math.isfinite(b)
        if known:
            path.append(f"{'L' if begun else 'M'}{_to(a, b)}")
        begun = known
    return "".join(path)


def _stroke(
    path: str, color: str, width: float, dash: str = "solid", opacity: float = 1.0, kind: str = "through"
) -> str:
    """Return a path with a width in pixels, independent of the figure's size; `kind` is a class for the script."""
    style = f'stroke="{color}" stroke-width="{width:g}" stroke-dasharray="{_DASHES[dash]}" stroke-opacity="{opacity:g}"'
    return _stretched(f'<path class="stroke {kind}" d="{path}" {style}/>')


def _stretched(inner: str) -> str:
    """Return an area of 1000 times 1000 that is stretched over the figure."""
    return f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">{inner}</svg>'


def _png(colors: Any) -> str:
    """Return an image (height, width, 3) of bytes as a data URL."""
    height, width, _ = colors.shape
    rows = b"".join(b"\0" + line.tobytes() for line in colors)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part)) for kind, part in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()
