"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        self.page.wait_for_function("document.querySelectorAll('.main-svg').length > 0")
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
    height = opened.page.evaluate("document.documentElement.scrollHeight")
    opened.page.wait_for_function("waiting.size === 0")  # those below the window are drawn a little later
    assert opened.page.evaluate("document.documentElement.scrollHeight") == height  # and nothing moves then
    figures = opened.page.locator(".figure")
    for i in range(figures.count()):
        assert figures.nth(i).locator(".main-svg").count() > 0
    assert opened.quiet(), (opened.errors, opened.dialogs, opened.requests)


@pytest.mark.parametrize(
    "name", ["grid", "box", *(pytest.param(name, marks=pytest.mark.slow) for name in ("labels", "range"))]
)
def test_the_dial_shows_what_the_profile_says(chromium: Any, reports: Reports, name: str) -> None:
    opt, path = reports[name]
    opened = Opened(chromium, path)
    stops = opened.page.evaluate("data.dial")
    found = opt.profile([stop["radius"] for stop in stops])
    slider = opened.page.locator("#radius")
    slider.focus()
    slider.press("Home")
    seen, heights = set(), set()
    for i in range(len(stops)):
        numbers = opened.page.locator("#dial-numbers dd").all_inner_texts()
        expected = (found.guarantee[i], found.expected[i], found.price[i], found.protection[i])
        assert [float(number) for number in numbers] == pytest.approx([float(e) for e in expected], rel=1e-3, abs=1e-3)
        seen.add(tuple(opened.page.locator("#dial-action dd").all_inner_texts()))
        assert opened.page.locator("#dial-meaning").inner_text().strip() == stops[i]["meaning"].strip()
        heights.add(opened.page.evaluate("document.documentElement.scrollHeight"))
        slider.press("ArrowRight")
    assert len(seen) == len({str(action) for action in found.actions}) or len(seen) > 1
    assert len(heights) == 1  # the page does not move with the dial
    assert opened.quiet(), opened.errors


def test_the_table_sorts_and_filters(chromium: Any, reports: Reports) -> None:
    opt, path = reports["box"]
    opened = Opened(chromium, path)
    column = opened.page.evaluate("data.results.columns.indexOf('outcome')")
    cells = f"#table tbody td:nth-child({column + 1})"
    opened.page.get_by_role("button", name="outcome", exact=True).click()
    upwards = [float(cell) for cell in opened.page.locator(cells).all_inner_texts() if cell]
    assert upwards == sorted(upwards)
    opened.page.get_by_role("button", name="outcome", exact=True).click()
    downwards = [float(cell) for cell in opened.page.locator(cells).all_inner_texts() if cell]
    assert downwards == sorted(upwards, reverse=True)
    opened.page.locator("#filter").fill("boost")
    boosted = sum(result.action["mode"] == "boost" for result in opt.results)
    assert opened.page.locator("#table tbody tr").count() == boosted
    assert opened.page.locator("#shown").inner_text() == f"{boosted} of {len(opt.results)} shown"


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
    outcomes = [float(row["outcome"]) if row["outcome"] else None for row in rows]
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
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in background.removeprefix("rgb(").removesuffix(")").split(",")) < 60


def test_paper_is_light_and_nothing_is_cut(chromium: Any, reports: Reports) -> None:
    page = chromium.new_page(color_scheme="dark", viewport={"width": 1200, "height": 900})
    page.goto(reports["box"][1].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.getElementById('fig-progress')._fullLayout.font.color") == "#1c2430"
    widest = (
        "Math.max(...[...document.querySelectorAll('.main-svg, #table')].map((e) => e.getBoundingClientRect().width))"
    )
    assert page.evaluate(widest) <= 700
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.getElementById('fig-progress')._fullLayout.width") > 700
