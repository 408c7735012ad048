"""The figures of the page, as Plotly takes them: data and layout in plain lists and mappings.

Colours are those of Okabe and Ito, which the colour-blind can tell apart. The page sets fonts and backgrounds.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drbo.spaces.rows import is_number

BLUE, ORANGE, GREEN, GREY, RED = "#3b8fc4", "#e08a00", "#159a77", "#8a8f98", "#d1542c"
Trace = dict[str, Any]
Figure = dict[str, Any]
_PERCENT = {"tickformat": ".0%"}
_SYMBOLS = {"circle": "●", "star": "★", "x": "✕", "diamond-open": "◇"}


def safe(text: Any) -> str:
    """Return a text of the user's such that Plotly, which knows some markup, shows it as it is."""
    return html.escape(str(text), quote=False)


def figure(data: Sequence[Trace], x: str, y: str, alt: str, **layout: Any) -> Figure:
    """Return a figure with titles of its axes, and words for those who do not see it."""
    axes = {
        "xaxis": {"title": {"text": safe(x)}, **layout.pop("xaxis", {})},
        "yaxis": {"title": {"text": safe(y)}, **layout.pop("yaxis", {})},
    }
    return {"data": list(data), "layout": {**axes, **layout}, "alt": alt}


def keys(figures: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the legend of figures that share one: for each kind of mark its name, once, its colour and its symbol.

    In place of the symbol of a line stands how it is drawn: solid, dot or dash.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for trace in (trace for one in figures for trace in one["data"]):
        if "name" not in trace or not trace.get("showlegend", True):
            continue
        if trace["type"] == "bar":
            symbol, color = "■", trace["marker"]["color"]
        elif "line" in trace:
            symbol, color = trace["line"].get("dash", "solid"), trace["line"]["color"]
        else:
            symbol, color = _SYMBOLS[trace["marker"]["symbol"]], trace["marker"]["color"]
        found.setdefault(trace["name"], (trace["name"], color, symbol))
    return list(found.values())


def points(x: Sequence[Any], y: Sequence[Any], name: str, color: str, symbol: str = "circle", **more: Any) -> Trace:
    """Return marks."""
    marker = {"color": color, "symbol": symbol, "size": 7, **more.pop("marker", {})}
    return {"type": "scatter", "mode": "markers", "x": list(x), "y": list(y), "name": name, "marker": marker, **more}


def line(x: Sequence[Any], y: Sequence[Any], name: str, color: str, **more: Any) -> Trace:
    """Return a line."""
    drawn = {"color": color, "width": 2.5, **more.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "name": name, "line": drawn, **more}


def band(x: Sequence[Any], low: Sequence[float], high: Sequence[float], name: str, color: str) -> Trace:
    """Return the area between two lines."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *reversed(x)],
        "y": [*low, *reversed(high)],
        "fill": "toself",
        "fillcolor": color + "33",
        "line": {"width": 0},
        "name": name,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def bars(x: Sequence[Any], y: Sequence[Any], name: str, color: str, **more: Any) -> Trace:
    """Return bars."""
    return {"type": "bar", "x": list(x), "y": list(y), "name": name, "marker": {"color": color}, **more}


def along(
    x: Sequence[Any], curves: Sequence[tuple[str, str, Sequence[float], Sequence[float], Sequence[float]]]
) -> list[Trace]:
    """Return curves with their bounds along an axis of numbers, or marks with bars along one of labels.

    A curve is its name, its colour, its values, and its lower and upper bounds.
    """
    traces: list[Trace] = []
    for name, color, middle, low, high in curves:
        if is_number(x):
            traces += [band(x, low, high, f"bounds, {name}", color), line(x, middle, name, color)]
        else:
            error = {
                "type": "data",
                "symmetric": False,
                "array": (np.array(high) - middle).tolist(),
                "arrayminus": (np.array(middle) - low).tolist(),
                "color": color,
            }
            traces.append(points([safe(value) for value in x], middle, name, color, error_y=error))
    return traces


def beside(name: str, values: Sequence[Any], reference: Sequence[float], worst: Sequence[float]) -> Figure:
    """Return the distribution of one condition under the reference and in the worst case."""
    alt = f"distribution of {name} under the reference and in the worst case"
    if not is_number(values):
        labels = list(dict.fromkeys(values))
        shares = [
            [sum(w for v, w in zip(values, weights, strict=True) if v == label) for label in labels]
            for weights in (reference, worst)
        ]
        shown = [safe(label) for label in labels]
        data = [bars(shown, shares[0], "reference", BLUE), bars(shown, shares[1], "worst case", ORANGE)]
        return figure(data, name, "share", alt, barmode="group", xaxis={"type": "category"}, yaxis=_PERCENT)
    column = np.array(values, dtype=float)
    used = (np.array(reference) > 0.0) | (np.array(worst) > 0.0)
    low, high = float(column[used].min()), float(column[used].max())
    edges = np.linspace(low, high if high > low else low + 1.0, 21)
    centres = (0.5 * (edges[1:] + edges[:-1])).tolist()
    data = []
    for weights, label, color in ((reference, "reference", BLUE), (worst, "worst case", ORANGE)):
        share, _ = np.histogram(column, bins=edges, weights=np.array(weights))
        data.append(bars(centres, share.tolist(), label, color, opacity=0.65, width=float(edges[1] - edges[0])))
    return figure(data, name, "share", alt, barmode="overlay", bargap=0, yaxis=_PERCENT)


def plane(names: Sequence[str], columns: Sequence[Sequence[float]], weights: Sequence[tuple[str, Any]]) -> Figure:
    """Return two conditions at once: one disc per context, whose area is its mass."""
    data = []
    largest = max(float(np.max(mass)) for _, mass in weights)
    for (label, mass), color in zip(weights, (BLUE, ORANGE), strict=True):
        some = np.flatnonzero(np.array(mass) > 1e-6).tolist()
        size = 40.0 * np.sqrt(np.array(mass)[some] / largest)
        marker = {"size": size.tolist(), "opacity": 0.55, "line": {"width": 1, "color": color}}
        x, y = ([column[i] for i in some] for column in columns)
        shares = [f"{label}: {mass[i]:.1%}" for i in some]
        data.append(points(x, y, label, color, marker=marker, text=shares, hoverinfo="x+y+text"))
    return figure(data, names[0], names[1], f"{names[0]} and {names[1]}: mass by area") | {"size": "wide"}
