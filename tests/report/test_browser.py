"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import csv
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from drbo import Optimizer
from drbo.report import write
from report.runs import RUNS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
try:
    from playwright.sync_api import Page, sync_playwright
except ModuleNotFoundError:
    sync_playwright = None  # type: ignore[assignment]
MISSING = "no browser (apt-get install chromium)" if BROWSER is None else "playwright is not installed"
if BROWSER is None or sync_playwright is None:
    if os.environ.get("DRBO_NEEDS_BROWSER"):  # CI must not skip these
        pytest.fail(MISSING, pytrace=False)
    pytest.skip(MISSING, allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def chromium(browser: Any) -> Iterator[Any]:
    """The browser, whose pages are closed after a test: open ones go on drawing."""
    yield browser
    for context in browser.contexts:
        context.close()


class Opened:
    """An open page, and what went wrong on it."""

    def __init__(self, chromium: Any, path: Path, width: int = 1200) -> None:
        self.page: Page = chromium.new_page(viewport={"width": width, "height": 900})
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.page.goto(path.as_uri())
        self.own = path.as_uri()

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def quiet(self) -> bool:
        """Whether there was no error and no dialog, and no request left the page."""
        outside = [url for url in self.requests if url != self.own and not url.startswith(("data:", "blob:"))]
        return not (self.errors or self.dialogs or outside)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Optimizer, Path]]:
    folder = tmp_path_factory.mktemp("reports")
    runs = {name: make() for name, make in RUNS.items()}
    return {name: (opt, write(opt, folder / f"{name}.html")) for name, opt in runs.items()}


Reports = dict[str, tuple[Optimizer, Path]]


PHONE = 390
"""The width of a small screen in pixels."""


@pytest.mark.parametrize(
    ("width", "name"),
    [
        *((1200, name) for name in RUNS),
        *((PHONE, name) for name in ("box", "hostile")),
        *(pytest.param(PHONE, name, marks=pytest.mark.slow) for name in ("grid", "labels", "range")),
    ],
)
def test_opens_quietly_on_a_screen_and_on_a_phone(chromium: Any, reports: Reports, name: str, width: int) -> None:
    opened = Opened(chromium, reports[name][1], width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    figures = opened.page.locator(".figure:visible")
    assert figures.count() >= 5
    for one in figures.evaluate_all(SEEN):
        assert one["marks"] > 0
        assert one["width"] > 0.25 * one["room"], one
        assert not one["outside"], one
        assert not one["overlapping"], one
    assert opened.quiet(), (opened.errors, opened.dialogs, opened.requests)


SEEN = """(figures) => figures.map((figure) => {
  const box = (e) => e.getBoundingClientRect();
  const own = box(figure), area = box(figure.querySelector(".marks"));
  const names = [...figure.querySelectorAll(".names.across span, .names.labels:not(.turned) span")];
  const words = [...figure.querySelectorAll(".title, .names span")];
  return {
    id: figure.id, width: area.width, room: own.width,
    marks: figure.querySelectorAll(".marks :is(path, circle, rect, image)").length,
    outside: words.filter((e) => box(e).left < own.left - 1 || box(e).right > own.right + 15).map((e) => e.textContent),
    overlapping: names.filter((e, i) => i && box(e).left < box(names[i - 1]).right).map((e) => e.textContent),
  };
})"""
"""How a figure looks: how wide its marks are, which words leave the figure, and which lie upon their neighbours."""


@pytest.mark.parametrize("width", [1200, PHONE])
def test_all_is_there_before_any_script_runs_and_nothing_moves_afterwards(
    chromium: Any, reports: Reports, width: int
) -> None:
    """The page of a reader whose browser runs no script is that of the others, without what only a script can do."""
    path = reports["box"][1]
    bare = chromium.new_context(java_script_enabled=False, viewport={"width": width, "height": 900}).new_page()
    full = chromium.new_context(viewport={"width": width, "height": 900}).new_page()
    for page in (bare, full):
        page.goto(path.as_uri())
    for key in ("fig-progress-0", "fig-dial", "fig-map-0", "fig-matters"):
        for part in ("", " .marks", " .names >> nth=0"):
            boxes = [page.locator(f"#{key}{part}").bounding_box() for page in (bare, full)]
            assert boxes[0]["width"] == boxes[1]["width"] > 0.0
            assert boxes[0]["height"] == boxes[1]["height"] > 0.0
    marks = [page.locator("#fig-progress-0 circle").first.bounding_box() for page in (bare, full)]
    assert marks[0] == marks[1]
    assert bare.locator("#table tbody tr").count() == len(reports["box"][0].results)
    assert bare.locator("#dial-stops .shown").inner_text() == full.locator("#dial-stops .shown").inner_text()
    assert not bare.locator("#radius").is_visible()
    assert sum(full.evaluate(SHIFTS)) < 1e-3  # browsers call 0.1 good


SHIFTS = """() => new Promise((done) => {
  new PerformanceObserver((list) => done(list.getEntries().map((e) => e.value)))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done([]), 300);
})"""
"""How far the browser saw things move since it opened the page."""


@pytest.mark.parametrize(
    "name", ["grid", "box", *(pytest.param(name, marks=pytest.mark.slow) for name in ("labels", "range"))]
)
def test_the_dial_shows_what_the_profile_says(chromium: Any, reports: Reports, name: str) -> None:
    opt, path = reports[name]
    opened = Opened(chromium, path)
    radii = opened.page.locator("#dial-stops .stop").evaluate_all("(all) => all.map((one) => one.dataset.radius)")
    found = opt.under().profile([float(radius) for radius in radii])
    slider = opened.page.locator("#radius")
    slider.focus()
    slider.press("Home")
    seen, heights, places = set(), set(), []
    for i, radius in enumerate(found.radius.tolist()):
        actions, numbers = (
            opened.page.locator(f"#dial-stops .shown dl >> nth={which} >> dd").all_inner_texts() for which in (0, 1)
        )
        expected = (found.bound[i], found.expected[i], found.price[i], found.protection[i])
        assert [float(number) for number in numbers] == pytest.approx(
            [float(e) for e in expected], rel=1e-3, abs=1e-3 * max(map(abs, expected))
        )
        seen.add(tuple(actions))
        assert opened.page.locator("#dial-meaning .shown").inner_text().startswith(f"Radius {radius:.3g}: ")
        places.append(opened.page.evaluate("document.getElementById('dial-mark').getBoundingClientRect().x"))
        heights.add(opened.page.evaluate("document.documentElement.scrollHeight"))
        slider.press("ArrowRight")
    assert len(seen) == len({str(action) for action in found.actions}) or len(seen) > 1
    assert len(heights) == 1  # the page does not move with the dial
    shares = (np.array(places) - places[0]) / (places[-1] - places[0])  # the mark moves with it
    assert shares == pytest.approx(np.array(found.radius) / found.radius[-1], abs=0.01)
    assert opened.quiet(), opened.errors


def test_the_table_sorts_and_filters(chromium: Any, reports: Reports) -> None:
    opt, path = reports["box"]
    opened = Opened(chromium, path)
    column = opened.page.locator("#table th").all_inner_texts().index("outcome")
    cells = f"#table tbody td:nth-child({column + 1})"
    assert opened.page.locator("#table th >> nth=0").get_attribute("aria-sort") == "ascending"
    opened.page.get_by_role("button", name="outcome", exact=True).click()
    upwards = [float(cell) for cell in opened.page.locator(cells).all_inner_texts() if cell]
    assert upwards == sorted(upwards)
    opened.page.get_by_role("button", name="outcome", exact=True).click()
    downwards = [float(cell) for cell in opened.page.locator(cells).all_inner_texts() if cell]
    assert downwards == sorted(upwards, reverse=True)
    opened.page.locator("#filter").fill("boost")
    boosted = sum(result.action["mode"] == "boost" for result in opt.results)
    assert opened.page.locator("#table tbody tr:visible").count() == boosted
    assert opened.page.locator("#shown").inner_text() == f"{boosted} of {len(opt.results)} shown"


def test_the_map_is_the_chosen_one(chromium: Any, reports: Reports) -> None:
    opened = Opened(chromium, reports["box"][1])
    for i in (3, 0):
        opened.page.locator("#map").select_option(index=i)
        x, y = opened.page.locator("#map option").nth(i).inner_text().split(" and ")
        assert opened.page.locator(".map:visible").count() == 1
        assert opened.page.locator(".map:visible .title").all_inner_texts() == [y, x]


@pytest.mark.parametrize("name", ["box", "hostile"])
def test_the_results_download_as_csv(chromium: Any, reports: Reports, name: str, tmp_path: Path) -> None:
    opt, path = reports[name]
    opened = Opened(chromium, path)
    with opened.page.expect_download() as download:
        opened.page.locator("#csv").click()
    download.value.save_as(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(opt.results)
    column = {"box": "outcome", "hostile": "<b>cost</b> (<i>&)"}[name]
    outcomes = [float(row[column]) if row[column] else None for row in rows]
    assert outcomes == [result.outcome for result in opt.results]
    assert not any(value.startswith(("=", "+", "@")) for row in rows for value in row.values())


def test_markup_of_users_is_text(chromium: Any, reports: Reports) -> None:
    opened = Opened(chromium, reports["hostile"][1])
    opened.page.locator("#map").select_option(index=0)
    text = opened.page.locator("main").inner_text()
    assert "<script>alert(1)</script>" in text
    assert "<svg onload=alert(3)>" in text
    assert opened.page.locator("main img, main b").count() == 0
    assert opened.quiet(), (opened.errors, opened.dialogs)


def test_dark_is_dark(chromium: Any, reports: Reports) -> None:
    page = chromium.new_page(color_scheme="dark")
    page.goto(reports["grid"][1].as_uri())
    style = "(e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    assert max(_rgb(page.locator("body").evaluate(style)[0])) < 60
    for names in (".figure .title", ".figure .names"):
        assert min(_rgb(page.locator(names).first.evaluate(style)[1])) > 150


def test_paper_is_light_and_nothing_is_cut(chromium: Any, reports: Reports) -> None:
    page = chromium.new_page(color_scheme="dark", viewport={"width": 700, "height": 900})
    page.goto(reports["box"][1].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert max(_rgb(page.locator(".figure .title").first.evaluate("(e) => getComputedStyle(e).color"))) < 60
    widest = (
        "Math.max(...[...document.querySelectorAll('.figure, #table')].map((e) => e.getBoundingClientRect().right))"
    )
    assert page.evaluate(widest) <= 700


def _rgb(color: str) -> list[int]:
    return [int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")]


def test_the_mouse_shows_the_numbers_behind_every_kind_of_mark(chromium: Any, reports: Reports) -> None:
    opt, path = reports["box"]
    opened = Opened(chromium, path)
    page, tip = opened.page, opened.page.locator("#tip")
    assert not tip.is_visible()

    def over(figure: str, x: float, y: float) -> str:
        area = page.locator(f"#{figure} .marks")
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        return tip.inner_text()

    first = page.locator("#fig-progress-0 circle").first
    at = [float(str(first.get_attribute(name)).removesuffix("%")) / 100 for name in ("cx", "cy")]
    told = opt.results[0]
    assert told.outcome is not None
    text = over("fig-progress-0", *at)
    assert text.startswith("result 0, setpoint ")
    assert f"outcome {told.outcome:.4g}" in text
    assert page.locator("#fig-progress-0 .ring.now").count() == 1
    assert "the model expects outcome " in over("fig-map-0", 0.5, 0.45) or "recommended" in tip.inner_text()
    longest = over("fig-matters", 0.3, 0.1)
    assert re.fullmatch(r"share: share of the variation [\d.]+%, \w+", longest), longest
    assert re.search(
        r"(reference|worst case): outdoor -?[\d.]+, share [\d.]+%", over("fig-condition-0", 0.5, 0.98)
    ) or ("%" in tip.inner_text())
    page.mouse.move(2, 2)
    assert not tip.is_visible()
    assert opened.quiet(), opened.errors


def test_the_keyboard_visits_every_mark_and_leads_to_the_table(chromium: Any, reports: Reports) -> None:
    opened = Opened(chromium, reports["box"][1])
    figure, tip = opened.page.locator("#fig-progress-0"), opened.page.locator("#tip")
    figure.focus()
    figure.press("ArrowRight")
    assert tip.inner_text().startswith("result 0, ")
    figure.press("ArrowRight")
    assert tip.inner_text().startswith("result 1, ")
    figure.press("ArrowDown")
    assert tip.inner_text().startswith("bounds: evaluation ")
    figure.press("End")
    assert tip.inner_text().startswith("pending: no outcome yet: evaluation 19")
    figure.press("Home")
    figure.press("Enter")
    assert opened.page.evaluate("document.activeElement.textContent") == "0"
    assert opened.page.locator("tr.chosen").count() == 1
    for key in ("fig-dial", "fig-condition-0", "fig-trust-0", "fig-slice-0", "fig-map-0", "fig-matters"):
        figure = opened.page.locator(f"#{key}")
        figure.focus()
        figure.press("ArrowRight")
        opened.page.locator("#fig-progress-0").dispatch_event("pointerleave")  # the page scrolled under the mouse
        assert tip.inner_text(), key
        assert "NaN" not in tip.inner_text()
        figure.press("Escape")
        assert not tip.is_visible()
    assert opened.quiet(), opened.errors


def test_a_row_of_the_table_leads_to_its_marks(chromium: Any, reports: Reports) -> None:
    opened = Opened(chromium, reports["box"][1])
    opened.page.locator("#table tbody tr >> nth=3 >> a").click()
    assert opened.page.locator("#fig-progress-0 .ring.row").count() == 1
    assert opened.page.locator("#fig-slice-0 .ring.row").count() == 1
    assert opened.page.locator("#fig-map-0 .ring.row").count() == 1
    assert opened.page.locator("#tip").inner_text().startswith("result 3, ")
    opened.page.locator("#table tbody tr >> nth=4 >> a").press("Enter")
    assert opened.page.locator("#fig-progress-0 .ring.row").count() == 1
    assert opened.page.locator("#tip").inner_text().startswith("result 4, ")


@pytest.mark.parametrize(("name", "key"), [("box", "fig-map-0"), ("hostile", "fig-condition-0")])
def test_figures_are_saved_as_svg(chromium: Any, reports: Reports, name: str, key: str, tmp_path: Path) -> None:
    opened = Opened(chromium, reports[name][1])
    with opened.page.expect_download() as download:
        opened.page.locator(f"#{key} .save").click()
    assert download.value.suggested_filename == f"{key}.svg"
    download.value.save_as(tmp_path / "figure.svg")
    drawn = ElementTree.parse(tmp_path / "figure.svg").getroot()
    names = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert opened.page.locator(f"#{key} .title.across").inner_text() in names
    assert ("colour: expected outcome" if key == "fig-map-0" else "worst case") in names  # the figure's own legend
    assert len(names) >= 4
    assert not list(drawn.iter("{http://www.w3.org/2000/svg}script"))
    alone = Opened(chromium, tmp_path / "figure.svg")
    assert alone.page.evaluate("document.documentElement.getBoundingClientRect().width") > 300
    assert alone.quiet(), (alone.errors, alone.dialogs)
    assert opened.quiet(), (opened.errors, opened.dialogs)


def test_a_page_of_two_runs(chromium: Any, reports: Reports, tmp_path: Path) -> None:
    opt = reports["labels"][0]
    earlier = RUNS["labels"]()
    earlier.replay(opt.records()[:8])
    opened = Opened(chromium, write(opt, tmp_path / "two.html", against=earlier), PHONE)
    text = opened.page.locator("#changes").inner_text()
    assert "an earlier state of this run: 4 evaluations came since then" in text
    assert opened.page.locator(".compared tbody tr").first.inner_text().split() == ["evaluations", "8", "12"]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert opened.quiet(), opened.errors


def test_the_first_screen_has_four_answers_and_a_light(chromium: Any, reports: Reports) -> None:
    opened = Opened(chromium, reports["labels"][1])
    titles = opened.page.locator(".answer h3").all_inner_texts()
    assert titles == ["What to do", "On a usual day", "If conditions shift", "How sure are we?"]
    last = opened.page.locator(".answer").last.bounding_box()
    assert last is not None
    assert last["y"] + last["height"] < 900  # without scrolling
    assert opened.page.locator(".verdict").get_attribute("class") in {f"verdict {c}" for c in ("green", "amber", "red")}
