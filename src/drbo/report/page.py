"""The page itself: one HTML file that needs no network.

Everything that a user typed is escaped: in the HTML as text, in the data of the figures as JSON without a "<".
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from drbo import validation
from drbo._extras import require
from drbo._files import write_atomically
from drbo.optimizer.analyses import Analyses
from drbo.report.contents import Contents
from drbo.report.figures import keys
from drbo.spaces.rows import text


def write(opt: Analyses, path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the page of an optimizer to a file, and return where it is; `title` is the file's name by default."""
    validation.of_kind("opt", opt, Analyses, "an Optimizer")
    target = validation.path("path", path)
    if title is not None:
        validation.of_kind("title", title, str, "text")
    write_atomically(target, page(opt, target.stem if title is None else title))
    return target


def page(opt: Analyses, title: str) -> str:
    """Return the page of an optimizer as HTML."""
    plotly = require("plotly.offline", "report")
    contents = Contents(opt)
    data: dict[str, Any] = {}
    body = "".join(_sections(contents, data))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    name = _escape(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:; font-src data:">
<link rel="icon" href="data:,">
<title>{name}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<header><h1>{name}</h1><p>drbo report, {made}</p></header>
<main>
{body}
</main>
<script type="application/json" id="data">{_json(data)}</script>
<script>{_asset("page.js")}</script>
<script>{plotly.get_plotlyjs()}</script>
</body>
</html>
"""


def _sections(contents: Contents, data: dict[str, Any]) -> list[str]:
    """Return the sections of the page in order; what figures and tables need goes to `data`."""
    figures: dict[str, Any] = {}
    data["figures"] = figures

    def figure(key: str, drawn: Mapping[str, Any] | None, size: str = "", legend: bool = True) -> str:
        if drawn is None:
            return ""
        figures[key] = drawn
        height = f' style="height: {drawn["height"]}px"' if "height" in drawn else ""
        alt = _escape(drawn["alt"])
        above = _legend([drawn]) if legend else ""
        return f'{above}<div class="figure {size}" id="{key}" role="img" aria-label="{alt}"{height}></div>'

    deploy, progress = contents.deploy(), contents.progress()
    chips = "".join(f"<div><dt>{_escape(n)}</dt><dd>{_escape(text(v))}</dd></div>" for n, v in deploy["action"].items())
    reach = f"<p>{_escape(deploy['reach'])}</p>" if "reach" in deploy else ""
    details = (
        f"<details><summary>In full</summary><pre>{_escape(deploy['text'])}</pre></details>" if deploy["text"] else ""
    )
    said = f'<dl class="action">{chips}</dl><p class="sentence">{_escape(deploy["sentence"])}</p>{reach}{details}'
    parts = [
        _section("deploy", "What to deploy", "", said),
        _section("progress", "Progress", progress["sentence"], figure("fig-progress", progress["figure"])),
    ]
    dial = contents.dial()
    if dial is not None:
        data["dial"] = dial["stops"]
        start = next(i for i, stop in enumerate(dial["stops"]) if stop["present"])
        inner = (
            f'<label for="radius">Radius: <output id="radius-value"></output></label>'
            f'<input type="range" id="radius" min="0" max="{len(dial["stops"]) - 1}" step="1" value="{start}">'
            '<div class="grid"><div><h3>What would be deployed</h3><dl class="numbers" id="dial-action"></dl>'
            '<h3>What it brings</h3><dl class="numbers" id="dial-numbers"></dl></div>'
            f"<div>{figure('fig-dial', dial['figure'], 'half')}</div></div>"
            '<details open><summary>What this radius means</summary><div id="dial-meaning"></div></details>'
        )
        parts.append(_section("dial", "The radius dial", dial["sentence"], inner))
    conditions = contents.conditions()
    if conditions is not None:
        shown = conditions["figures"]
        drawn = "".join(
            figure(f"fig-condition-{i}", one, one.get("size", "half"), legend=False) for i, one in enumerate(shown)
        )
        table = f"<details><summary>In numbers</summary><pre>{_escape(conditions['text'])}</pre></details>"
        inner = f'{_legend(shown)}<div class="grid">{drawn}</div>{table}'
        parts.append(_section("conditions", "The worst case beside the reference", conditions["sentence"], inner))
    baseline = contents.baseline()
    if baseline is not None:
        parts.append(_section("baseline", "Against what we do today", baseline["sentence"], _numbers(baseline["rows"])))
    trust = contents.trust()
    if trust is not None:
        parts.append(
            _section("trust", "Can the model be trusted?", trust["sentence"], figure("fig-trust", trust["figure"]))
        )
    model = contents.model()
    if model is not None:
        shown = model["slices"]
        drawn = "".join(figure(f"fig-slice-{i}", one, "half", legend=False) for i, one in enumerate(shown))
        inner = f'{_legend(shown)}<div class="grid">{drawn}</div>'
        if model["maps"]:
            data["maps"] = [one["figure"] for one in model["maps"]]
            options = "".join(f'<option value="{i}">{_escape(m["name"])}</option>' for i, m in enumerate(model["maps"]))
            inner += (
                f'<p><label for="map">Map of <select id="map">{options}</select></label></p>'
                f"{_legend(data['maps'])}"
                '<div class="figure" id="fig-map" role="img" aria-label="map of the expected outcome"></div>'
            )
        parts.append(_section("model", "What the model thinks", model["sentence"], inner))
    matters = contents.matters()
    if matters is not None:
        advice = f"<p>{_escape(_sentence(matters['next']))}</p>" if matters["next"] else ""
        inner = figure("fig-matters", matters["figure"], legend=False) + advice
        parts.append(_section("matters", "What matters, and where to look next", matters["sentence"], inner))
    data["results"] = contents.results()
    count = len(data["results"]["rows"])
    table = (
        '<p class="tools"><label>Filter <input type="search" id="filter"></label> '
        '<button type="button" id="csv">Download CSV</button> <span id="shown" aria-live="polite"></span></p>'
        '<div class="scroll"><table id="table"><thead></thead><tbody></tbody></table></div>'
    )
    parts.append(_section("results", "All results", f"{count} results, in the order in which they were told.", table))
    made = "".join(f"<dt>{_escape(n)}</dt><dd>{_escape(v)}</dd>" for n, v in contents.configuration().items())
    parts.append(_section("configuration", "How it was made", "", f'<dl class="configuration">{made}</dl>'))
    return parts


def _section(key: str, title: str, sentence: str, inner: str) -> str:
    said = f'<p class="sentence">{_escape(sentence)}</p>' if sentence else ""
    return f'<section id="{key}"><h2>{title}</h2>{said}{inner}</section>\n'


def _legend(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the legend of figures that share one, as text: it wraps on a narrow page."""
    marks = []
    for name, color, symbol in keys(figures):
        kind, inner = (f"stroke {symbol}", "") if symbol.isalpha() else ("mark", symbol)
        marks.append(f'<li><span class="{kind}" style="color: {color}">{inner}</span> {name}</li>')
    return f'<ul class="legend">{"".join(marks)}</ul>'


def _numbers(rows: Mapping[str, float]) -> str:
    return '<dl class="numbers">' + "".join(f"<dt>{n}</dt><dd>{v:.4g}</dd>" for n, v in rows.items()) + "</dl>"


def _sentence(words: str) -> str:
    """Return words as a sentence."""
    joined = " ".join(words.split())
    return joined[:1].upper() + joined[1:] + ("" if joined.endswith(".") else ".")


def _escape(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _asset(name: str) -> str:
    return resources.files("drbo.report").joinpath(name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """Return data as JSON that can stand in a script element: no "<" can end it or begin another."""
    return json.dumps(_finite(data), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """Return data with None in place of what JSON has no number for."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_finite(item) for item in value]
    return value
