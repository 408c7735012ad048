"""Marks stand where their values are, whatever is drawn, and users' words in them are text."""

import base64
import json
import math
import re
import struct
import zlib
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from drbo.report.contents import beside, plane
from drbo.report.marks import Axis, Band, Bars, Cells, Dots, Figure, Line, Rule, Strip, _ranges, legend
from drbo.report.scales import Logarithmic, Names, Numbers, Percentages
from drbo.report.surface import along

UNIT = Numbers(0.0, 1.0)
HOSTILE = '"><script>alert(1)</script>\r&\0'


def parsed(markup: str) -> Any:
    """Return what a strict reader makes of the markup."""
    return ElementTree.fromstring(f"<svg>{markup}</svg>")


def number(text: str) -> float:
    return float(text.removesuffix("%")) / 100.0


def pixels(address: str) -> Any:
    """Return the picture (height, width, 3) in an address."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, part = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + part)
        chunks[kind] = part
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_points_stand_at_their_values() -> None:
    found = parsed(Dots([0.25, 1.0], [0.0, 0.9], "p", "#123456").svg(UNIT, UNIT)).findall("g/circle")
    assert [(number(one.get("cx")), number(one.get("cy"))) for one in found] == [(0.25, 1.0), (1.0, pytest.approx(0.1))]


def test_many_points_are_one_path_at_the_same_places() -> None:
    x = np.linspace(0.0, 1.0, 501).tolist()
    (path,) = parsed(Dots(x, x, "p", "#123456").svg(UNIT, UNIT)).findall("svg/path")
    places = np.array(re.findall(r"M(\S+) (\S+)h0", path.get("d")), dtype=float)
    assert places == pytest.approx(1000.0 * np.c_[x, 1.0 - np.array(x)], abs=0.1)


def test_bounds_of_points_are_bars() -> None:
    drawn = parsed(Dots([0.5], [0.5], "p", "#123456", low=[0.1], high=[0.7]).svg(UNIT, UNIT))
    assert drawn.find("svg/path").get("d") == "M500 900L500 300"


def test_a_line_leaves_out_what_is_not_finite() -> None:
    y = [0.0, 0.5, math.inf, 1.0, math.nan]
    (path,) = parsed(Line([0.0, 0.25, 0.5, 0.75, 1.0], y, "l", "#123456").svg(UNIT, UNIT)).findall("svg/path")
    assert path.get("d") == "M0 1000L250 500M750 0"
    assert Band([0.0, 1.0], [math.inf, 0.0], [1.0, math.nan], "#123456").svg(UNIT, UNIT) == ""


@pytest.mark.parametrize("upright", [True, False])
def test_bars_have_the_lengths_of_their_values(upright: bool) -> None:
    labels, shares = Names.over(["a", "b"], 0.0), Percentages(0.0, 0.8)
    bars = Bars(["a", "b"], [0.2, 0.8], "s", "#123456", 0.1, 0.9, upright=upright)
    axes = (labels, shares) if upright else (shares, labels)
    found = parsed(bars.svg(*axes)).findall("g/rect")
    boxes = [[number(one.get(side)) for side in ("x", "y", "width", "height")] for one in found]
    expected = (
        [[0.05, 0.75, 0.4, 0.25], [0.55, 0.0, 0.4, 1.0]] if upright else [[0.0, 0.55, 0.25, 0.4], [0.0, 0.05, 1.0, 0.4]]
    )
    for box, wanted in zip(boxes, expected, strict=True):
        assert box == pytest.approx(wanted, abs=1e-9)


def test_cells_have_colours_by_their_numbers_and_end_halfway() -> None:
    """Three columns that are not evenly spaced, and not in order."""
    x, y = Numbers(0.0, 1.0), Names.over(["low", "high"], 0.0)
    image = parsed(Cells([0.9, 0.1, 0.3], ["low", "high"], np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]])).svg(x, y))[0]
    left, width = number(image.get("x")), number(image.get("width"))
    assert [left, left + width] == pytest.approx([0.0, 1.2], abs=1e-9)
    picture = pixels(image.get("href"))

    def color(across: float, down: float) -> tuple[int, ...]:
        height, across = picture.shape[0], (across - left) / width * picture.shape[1]
        return tuple(picture[int(down * height), int(across)].tolist())

    least, middle, most = (0x00, 0x22, 0x4E), (0x7D, 0x7C, 0x76), (0xFE, 0xE8, 0x38)
    assert color(0.1, 0.75) == color(0.19, 0.55) == color(0.9, 0.25) == least
    assert color(0.21, 0.75) == color(0.59, 0.95) == pytest.approx(middle, abs=1)
    assert color(0.61, 0.55) == color(1.1, 0.95) == most


def test_words_of_users_are_text_everywhere() -> None:
    marks = [
        Dots([HOSTILE], [0.5], HOSTILE, "#123456", hints=[HOSTILE]),
        Dots([HOSTILE], [0.5], "p", "#123456", "star"),
        Bars([HOSTILE], [0.5], "s", "#123456"),
    ]
    markup = Figure(marks, Axis(HOSTILE, Names), Axis(HOSTILE), HOSTILE).markup("key")
    assert "<script" not in markup
    found = ElementTree.fromstring(markup)
    shown = HOSTILE.replace("\0", "\ufffd")
    assert found.get("aria-label") == shown
    assert [one.text for one in found.iter() if one.get("class", "").startswith("title")] == [shown] * 2
    assert [one.text for one in found.iter("span")][-1] == shown
    named = [one for one in found.iter() if one.get("class") == "mark"]
    assert [one.get("data-name") for one in named] == [shown, "p", "s"]
    assert json.loads(named[0].get("data-hints", "")) == [HOSTILE]
    axes = json.loads(found.get("data-axes", ""))
    assert [one["title"] for one in axes] == [HOSTILE] * 2
    assert "<script" not in legend([Figure(marks, Axis("x", Names), Axis("y"), "")])


def test_rows_are_ranges() -> None:
    assert _ranges([0, 1, 2, 5, 7, 8]) == "0-2 5-5 7-8"
    assert Dots([0.0], [0.0], "p", "#123456", rows=[3]).data() == {"rows": "3-3"}


def test_cells_carry_their_numbers() -> None:
    made = Cells([0.0, 1.0], [0.0, 1.0], np.array([[0.0, 1.0], [math.nan, 10.0]])).data()
    levels = [made["z"][i : i + 2] for i in range(0, 8, 2)]
    assert levels[2] == "--"
    values = [
        float(made["low"]) + int(levels[i], 36) / 1295 * (float(made["high"]) - float(made["low"])) for i in (0, 1, 3)
    ]
    assert values == pytest.approx([0.0, 1.0, 10.0], abs=0.01)


def test_what_has_no_value_stands_above_the_figure() -> None:
    """REVIEW U7: a pending evaluation was drawn like a result."""
    strip = Strip([0.5], "pending", "#123456", "diamond")
    assert strip.values() == ([0.5], [])
    (mark,) = parsed(strip.svg(UNIT, UNIT)).findall("g/svg")
    assert (mark.get("x"), mark.get("y")) == ("50%", "-10")


def test_a_figure_shows_all_values_of_its_marks() -> None:
    line, points = Line([1.0, 10.0], [0.0, 5.0], "l", "#111111"), Dots([100.0], [9.0], "p", "#222222")
    marks = [line, points, Rule(0.1, "r", "#333333")]
    x, y = Figure(marks, Axis("x", Logarithmic, pad=0.0), Axis("y", pad=0.0), "alt").scales()
    assert x.at([0.1, 100.0]) == pytest.approx([0.0, 1.0])
    assert y.at([0.0, 9.0]) == pytest.approx([0.0, 1.0])


def test_a_figure_without_values_is_drawn() -> None:
    assert "<svg" in Figure([], Axis("x"), Axis("y"), "nothing").markup("key")
    assert "<svg" in Figure([Dots([], [], "p", "#123456")], Axis("x", Names), Axis("y"), "nothing").markup("key")


def test_many_labels_are_turned_and_some_are_left_out() -> None:
    labels = [f"label {i}" for i in range(45)]
    markup = Figure([Bars(labels, [0.1] * 45, "s", "#123456")], Axis("x", Names), Axis("y", Percentages), "a").markup(
        "k"
    )
    names = re.findall(r"<span>(.*?)</span>", markup)
    assert len(names) == 45
    assert [name for name in names if name] == labels[::3]
    assert 'class="names labels turned"' in markup
    bars = Bars(labels, [0.1] * 45, "s", "#123456", upright=False)
    lying = Figure([bars], Axis("x", Percentages), Axis("y", Names), "a", height=1600).markup("k")
    assert all(f">{label}<" in lying for label in labels)  # there is room


def test_a_legend_names_each_kind_of_mark_once() -> None:
    figures = [
        Figure(along([0.0, 1.0], [("a", "#111111", [0, 1], [0, 1], [0, 1])]), Axis("x"), Axis("y"), "alt"),
        Figure(along(["u", "v"], [("a", "#111111", [0, 1], [0, 1], [0, 1])]), Axis("x", Names), Axis("y"), "alt"),
    ]
    assert legend(figures).count("<li>") == 1


def test_conditions_of_one_value_and_masses_of_nothing() -> None:
    (bars, _) = beside("c", [3.0, 3.0], [0.5, 0.5], [1.0, 0.0]).marks
    assert sum(bars.values()[1]) == pytest.approx(1.0)
    drawn = plane(["a", "b"], [[0.0, 1.0], [2.0, 3.0]], [("reference", [0.75, 0.25]), ("worst case", [0.0, 1.0])])
    first, second = drawn.marks
    assert isinstance(first, Dots)
    assert isinstance(second, Dots)
    assert (first.sizes[1] / first.sizes[0]) ** 2 == pytest.approx(0.25 / 0.75)  # mass by area
    assert (second.x, second.y) == ([1.0], [3.0])
