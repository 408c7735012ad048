"""The page itself: one HTML file that needs no network.

All user text is escaped, and the browser runs only the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from drbo import Optimizer, validation
from drbo._files import write_atomically
from drbo._messages import counted
from drbo.report.changes import changes
from drbo.report.contents import PageContents, as_sentence
from drbo.report.marks import Figure, escaped, legend
from drbo.spaces.space import text


def write(
    opt: Optimizer, path: str | os.PathLike[str], title: str | None = None, against: Optimizer | None = None
) -> Path:
    """Write the page of an optimizer to a file, and return its path; the default of `title` is the file's name.

    `against` is another run, or an earlier state of this one; the page then says what changed.
    """
    validation.of_kind("opt", opt, Optimizer, "an Optimizer")
    if against is not None:
        validation.of_kind("against", against, Optimizer, "an Optimizer")
    target = validation.path("path", path)
    if title is not None:
        validation.of_kind("title", title, str, "text")
    write_atomically(target, page(opt, target.stem if title is None else title, against))
    return target


def page(opt: Optimizer, title: str, against: Optimizer | None = None) -> str:
    """Return the page of an optimizer as HTML."""
    body = "".join(_sections(PageContents(opt), None if against is None else PageContents(against)))
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    name = escaped(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{digest}'; \
style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{name}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<noscript><style>.tools, .save, #radius, #map {{ display: none; }}</style></noscript>
<header><h1>{name}</h1><p>drbo report, {made}</p></header>
<main>
{body}
</main>
<div id="tip" role="status" aria-live="polite" hidden></div>
<script>{script}</script>
</body>
</html>
"""


def _sections(contents: PageContents, before: PageContents | None) -> list[str]:
    """Return the sections of the page in order; `before` are the contents of another run."""
    progress, results = contents.progress(), contents.results()
    parts = [_section("deploy", "The answer", "", _answers(contents.deploy()))]
    if before is not None:
        found = changes(contents, before)
        said = "".join(f'<p class="sentence">{escaped(one)}</p>' for one in found["paragraphs"])
        parts.append(_section("changes", "What changed", "", said + _compared(found["rows"])))
    drawn = _figures("progress", [progress["figure"]]) if results["rows"] else ""
    parts.append(_section("progress", "Progress", progress["sentence"], drawn))
    further: list[tuple[str, str, Callable[[], Any], Callable[[Any], str]]] = [
        ("limits", "Limits", contents.limits, lambda part: _figures("limits", part["figures"])),
        ("dial", "The radius dial", contents.dial, lambda part: _dial(part["stops"], part["figure"])),
        ("conditions", "The worst case beside the reference", contents.conditions, _conditions),
        ("baseline", "Against what we do today", contents.baseline, lambda part: _numbers(part["rows"])),
        ("trust", "Can the model be trusted?", contents.trust, lambda part: _figures("trust", [part["figure"]])),
        ("model", "What the model thinks", contents.model, _model),
        ("matters", "What matters, and where to look next", contents.matters, _matters),
    ]
    for key, title, make, inner in counted(further, len(further), "writing the report, sections"):
        part = make()
        if part is not None:
            parts.append(_section(key, title, part["sentence"], inner(part)))
    left_out = results["count"] - len(results["rows"])
    count = f"{results['count']:,} results, in the order in which they were told. A number links to its marks above."
    if left_out:
        count = f"The last {len(results['rows']):,} of {count} to_frame() has them all."
    parts.append(_section("results", "All results", count, _table(results["columns"], results["rows"], left_out)))
    made = "".join(f"<dt>{escaped(n)}</dt><dd>{escaped(v)}</dd>" for n, v in contents.configuration().items())
    parts.append(_section("configuration", "How it was made", "", f'<dl class="configuration">{made}</dl>'))
    return parts


def _answers(found: Mapping[str, Any]) -> str:
    """Return the four answers of the first screen, and below them the technical words."""
    if "why_not" in found:
        return f'<p class="verdict red">{escaped(found["why_not"])}</p>'
    chips = "".join(f"<div><dt>{escaped(n)}</dt><dd>{escaped(text(v))}</dd></div>" for n, v in found["action"].items())
    light = found["verdict"].light.name.lower()
    findings = "".join(
        f'<li class="{finding.light.name.lower()}">{escaped(finding)}</li>'
        for finding in sorted(found["verdict"].findings, key=lambda one: -one.light)
    )
    cards = [
        ("What to do", f'<dl class="action">{chips}</dl>'),
        ("On a usual day", _stated(found["usual"], found["usual_if"])),
        ("If conditions shift", _stated(found["shifted"], f"{found['shifted_if']} ({found['word']})")),
        (
            "How sure are we?",
            f'<p class="verdict {light}"><strong>{light.capitalize()}.</strong> {escaped(found["verdict"])}</p>'
            f'<ul class="findings">{findings}</ul>',
        ),
    ]
    answers = "".join(f'<div class="answer"><h3>{title}</h3>{inner}</div>' for title, inner in cards)
    lines = [found["sentence"], *found["limits"], *filter(None, (found["trust"], found["reach"]))]
    further = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    details = _details("In full, as recommend() prints it", found["text"])
    return f'<div class="answers">{answers}</div><h3>In technical words</h3>{further}{details}'


def _stated(number: str, condition: str) -> str:
    """Return a statement and its condition."""
    return f'<p class="stated">{escaped(as_sentence(number)[:-1])}</p><p class="condition">{escaped(condition)}</p>'


def _compared(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return a table of two runs."""
    lines = "".join(f"<tr><th>{escaped(n)}</th><td>{escaped(a)}</td><td>{escaped(b)}</td></tr>" for n, a, b in rows)
    heads = "<tr><th></th><th>the other run</th><th>this run</th></tr>"
    return f'<div class="scroll"><table class="compared"><thead>{heads}</thead><tbody>{lines}</tbody></table></div>'


def _conditions(part: Mapping[str, Any]) -> str:
    return _figures("condition", part["figures"]) + _details("In numbers", part["text"])


def _model(part: Mapping[str, Any]) -> str:
    return _figures("slice", part["slices"]) + _maps(part["maps"])


def _matters(part: Mapping[str, Any]) -> str:
    advice = f"<p>{escaped(part['next'])}</p>" if part["next"] else ""
    return (part["figure"].markup("fig-matters") if part["figure"] else "") + advice


def _details(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary><pre>{escaped(text)}</pre></details>"


def _figures(key: str, figures: Sequence[Figure]) -> str:
    """Return figures with a shared legend."""
    drawn = "".join(one.markup(f"fig-{key}-{i}") for i, one in enumerate(figures))
    return f'{legend(figures)}<div class="grid">{drawn}</div>'


def _dial(stops: Sequence[Mapping[str, Any]], drawn: Figure) -> str:
    """Return the slider and the contents of its stops: all stops overlap, and one is visible."""
    start = next(i for i, stop in enumerate(stops) if stop["present"])
    mine = f"{stops[start]['radius']:.4g}"
    shown, meanings = [], []
    for i, stop in enumerate(stops):
        chosen = " shown" if i == start else ""
        name = f"{mine} (this run)" if i == start else f"{stop['radius']:.4g} (this run: {mine})"
        shown.append(
            f'<div class="stop{chosen}" data-radius="{stop["radius"]!r}" data-name="{name}" data-at="{stop["at"]}">'
            f"<h3>What would be deployed</h3>{_numbers({name: text(value) for name, value in stop['action'].items()})}"
            f"<h3>What to expect</h3>{_numbers(stop['brings'])}</div>"
        )
        meanings.append(f'<pre class="stop{chosen}">{escaped(stop["meaning"])}</pre>')
    return (
        f'<label for="radius">Radius: <output id="radius-value">{mine} (this run)</output></label>'
        f'<input type="range" id="radius" min="0" max="{len(stops) - 1}" step="1" value="{start}">'
        f'<div class="grid"><div class="stops" id="dial-stops">{"".join(shown)}</div>'
        f"<div>{legend([drawn])}{drawn.markup('fig-dial')}</div></div>"
        "<details open><summary>What this radius means</summary>"
        f'<div class="stops" id="dial-meaning">{"".join(meanings)}</div></details>'
    )


def _maps(maps: Sequence[Mapping[str, Any]]) -> str:
    """Return the maps and their selector; one map is visible."""
    if not maps:
        return ""
    options = "".join(f"<option>{escaped(one['name'])}</option>" for one in maps)
    drawn = "".join(
        f'<div class="map"{" hidden" if i else ""}>{one["figure"].markup(f"fig-map-{i}")}</div>'
        for i, one in enumerate(maps)
    )
    choice = f'<p><label for="map">Map of <select id="map">{options}</select></label></p>'
    return f"{choice}{legend([one['figure'] for one in maps])}{drawn}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], left_out: int) -> str:
    """Return the table of results; the value attribute of a cell has all digits of its number."""
    numbers = [i > 0 and any(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    heads = "".join(
        f'<th{" class=number" if numbers[i] else ""} aria-sort="{"none" if i else "ascending"}">'
        f'<button type="button">{escaped(name)}</button></th>'
        for i, name in enumerate(columns)
    )
    lines = "".join(
        f'<tr><td><a href="#fig-progress-0">{row[0]}</a></td>{"".join(map(_cell, row[1:]))}</tr>' for row in rows
    )
    return (
        '<p class="tools"><label>Filter <input type="search" id="filter"></label> '
        '<button type="button" id="csv">Download CSV</button> '
        f'<span id="shown" aria-live="polite">{len(rows)} of {len(rows)} shown</span></p>'
        f'<div class="scroll"><table id="table"><thead><tr>{heads}</tr></thead>'
        f'<tbody data-first="{left_out}">{lines}</tbody></table></div>'
    )


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return f"<td>{'' if value is None else escaped(value)}</td>"
    return f'<td><data value="{value!r}">{text(value)}</data></td>'


def _section(key: str, title: str, sentence: str, inner: str) -> str:
    said = f'<p class="sentence">{escaped(sentence)}</p>' if sentence else ""
    return f'<section id="{key}"><h2>{title}</h2>{said}{inner}</section>\n'


def _numbers(rows: Mapping[str, str]) -> str:
    return (
        '<dl class="numbers">'
        + "".join(f"<dt>{escaped(n)}</dt><dd>{escaped(v)}</dd>" for n, v in rows.items())
        + "</dl>"
    )


def _asset(name: str) -> str:
    return resources.files("drbo.report").joinpath(name).read_text(encoding="utf-8")
