"""What a notebook shows of an optimizer, a suggestion and a recommendation: names and labels are text."""

from html.parser import HTMLParser

import numpy as np
import pytest

import drbo

SCRIPT = "<script>alert('1')</script>"
ALLOWED = {"div", "strong", "table", "tr", "th", "td", "details", "summary", "pre"}


class Page(HTMLParser):
    """Collects the elements and the text of a page, as a browser would read it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.elements.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Page:
    page = Page(markup)
    assert page.open == []
    assert set(page.elements) <= ALLOWED
    return page


def test_the_reader_sees_a_script() -> None:
    with pytest.raises(AssertionError):
        read(f"<div>{SCRIPT}</div>")


def test_names_and_labels_are_text() -> None:
    opt = drbo.Optimizer(
        drbo.Box({SCRIPT: drbo.Categorical(SCRIPT, "b"), "x": (0.0, 1.0)}),
        drbo.Samples(np.random.default_rng(0).normal(size=(6, 1)), names=[SCRIPT + "c"]),
        setting=drbo.Simulator(radius=0.1, pick="uncertain"),
    )
    s = opt.ask()
    assert SCRIPT in read(s._repr_html_()).text
    assert f"{SCRIPT}c (context)" in read(s._repr_html_()).text
    opt.tell(s, 1.0)
    assert SCRIPT in read(opt._repr_html_()).text
    page = read(opt.recommend()._repr_html_())
    assert SCRIPT in page.text


def test_what_is_shown() -> None:
    grid = np.linspace(0.0, 1.0, 4)
    opt = drbo.Optimizer(grid, grid, setting=drbo.Simulator(np.full(4, 0.25), 0.1, pick="uncertain"), maximize=False)
    assert "told0failed0pending0" in read(opt._repr_html_()).text
    opt.tell(opt.ask(), 2.0)
    opt.tell(opt.ask(), failed=True)
    s = opt.ask(n_contexts=2)
    text = read(s._repr_html_()).text
    assert f"Suggestion {s.number}: evaluate" in text
    assert text.count("(context)") == 2
    text = read(opt._repr_html_()).text
    assert "told2failed1pending1" in text
    assert "minimised" in text
    best = opt.recommend()
    text = read(best._repr_html_()).text
    assert f"Deploy; {best.statement}" in text
    assert str(best) in text
    assert best.trust.verdict == "extrapolated"  # one outcome, of four contexts
    assert best.statement.startswith("a guess: at most ")
