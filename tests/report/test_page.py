"""The page says what the optimizer says, escapes what users type, and needs no network."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drbo import GP, RBF, Box, General, Optimizer, Perturbation, Product, Samples, Simulator, TheoreticalBeta
from drbo.report import write
from drbo.report.contents import PageContents
from drbo.report.marks import Figure
from drbo.report.page import page
from report.runs import RUNS, box, grid

FIXED = GP(Product(RBF(0.3), RBF(0.4)), 0.1)


class Elements(HTMLParser):
    """The elements of a page: their names and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def marks_of(figure: Figure) -> dict[str, Any]:
    """Return the marks of a figure that its legend names."""
    return {mark.name: mark for mark in figure.marks if mark.name}


def test_results_are_read_a_few_times_not_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, results = list[Optimizer](), vars(Optimizer)["results"].fget

    def counted(self: Optimizer) -> Any:
        reads.append(self)
        return results(self)

    monkeypatch.setattr(Optimizer, "results", property(counted))
    opt, counts = box(), list[int]()
    for _ in range(2):
        reads.clear()
        page(opt, "run")
        counts.append(len(reads))
        for result in results(opt):
            if result.outcome is not None:
                opt.tell(result.action, result.outcome, context=result.context)
    assert counts[0] == counts[1]


LATER = [name for name in RUNS if name not in ("grid", "box", "labels")]
"""The browser opens the pages of these in every run."""


@pytest.mark.parametrize("name", ["grid", "box", "labels", *(pytest.param(n, marks=pytest.mark.slow) for n in LATER)])
def test_every_kind_of_run_has_a_page(name: str, tmp_path: Path) -> None:
    opt = RUNS[name]()
    before = opt.history
    path = write(opt, tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 6e6
    assert opt.history == before  # a report is a query
    elements = Elements(text).found
    assert {attributes["id"] for tag, attributes in elements if tag == "section"} >= {
        "deploy", "progress", "dial", "conditions", "trust", "model", "matters", "results", "configuration",
    }  # fmt: skip
    for tag, attributes in elements:
        assert tag not in ("img", "iframe", "object", "embed")
        assert not any(key.startswith("on") for key in attributes)
        address = attributes.get("src") or attributes.get("href")
        assert address is None or address == "data:," or address.startswith(("data:image/png;base64,", "#"))
    assert len(re.findall(r"<td>", text)) == len(opt.results) * len(PageContents(opt).results()["columns"])
    dial = PageContents(opt).dial()
    assert dial is not None
    present = next(stop for stop in dial["stops"] if stop["present"])
    assert present["bound"] == pytest.approx(opt.recommend().trust.guess, rel=1e-6)
    found = opt.under().profile([stop["radius"] for stop in dial["stops"]])
    for key in ("bound", "expected", "price", "protection"):
        assert [stop[key] for stop in dial["stops"]] == pytest.approx(getattr(found, key).tolist(), rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_500_evaluations_in_six_dimensions_take_less_than_a_megabyte(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names, past = "abcd", {"outdoor": rng.normal(5.0, 6.0, 60), "load": rng.uniform(0.2, 0.8, 60)}
    opt = Optimizer(Box(dict.fromkeys(names, (0.0, 1.0))), Samples(past), setting=Simulator(radius=0.1))
    for x in rng.uniform(size=(500, 6)):
        context = {"outdoor": 10.0 * x[4], "load": x[5]}
        opt.tell(dict(zip(names, x, strict=False)), float(np.sin(3.0 * x).sum()), context=context)
    assert write(opt, tmp_path / "run.html").stat().st_size <= 1e6


def test_a_browser_runs_the_script_of_the_page_alone() -> None:
    text = page(grid(), "x")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(attributes for _, attributes in Elements(text).found if "http-equiv" in attributes)["content"]
    assert f"script-src 'sha256-{digest}';" in policy


def test_shares_of_the_conditions_are_those_of_the_recommendation() -> None:
    opt = RUNS["labels"]()
    r, shown = opt.recommend(), PageContents(opt).conditions()
    assert shown is not None
    for bars, weights in zip(shown["figures"][0].marks, (r.reference, r.weights), strict=True):
        shares = dict(zip(bars.at, bars.sizes, strict=True))
        assert [shares[label] for label in r.contexts] == pytest.approx(weights.tolist())


def test_failures_and_pending_evaluations_are_marked() -> None:
    contents = PageContents(box())
    marks = marks_of(contents.progress()["figure"])
    assert len(marks["failed"].x) == 1
    assert len(marks["pending: no outcome yet"].x) == 2
    assert len(marks["outcome"].x) == 16
    found = contents.baseline()
    assert found is not None
    assert "Today's action is setpoint = 21" in found["sentence"]


def test_the_page_begins_with_the_word_and_the_verdict_of_the_recommendation() -> None:
    for opt, word in (
        (RUNS["labels"](), ""),
        (told(FIXED, 40), "Estimated: at least "),
        (told(FIXED, 1), "A guess: at least "),
    ):
        r, shown = opt.recommend(), PageContents(opt).deploy()
        assert shown["sentence"].lower().startswith(f"{r.statement} on average in every distribution")
        assert shown["sentence"].startswith(word)
        assert shown["trust"].lower() == f"{' '.join(str(r.trust).split())}.".lower()  # `str` breaks long lines
        assert html.escape(shown["trust"]) in page(opt, "x")
    proven = told(FIXED, 1, beta=TheoreticalBeta(1.0, 0.1))
    assert PageContents(proven).deploy()["sentence"].startswith("Guaranteed: at least ")
    assert PageContents(proven).deploy()["trust"] == ""


def told(model: GP, n: int, **arguments: Any) -> Optimizer:
    where = np.linspace(0.0, 1.0, 4)
    opt = Optimizer(where, where, setting=Simulator(np.full(4, 0.25), 0.1), surrogate=model, **arguments)
    for _ in range(n):
        opt.tell(opt.ask(), 1.0)
    return opt


def test_progress_ends_at_the_bound_of_now() -> None:
    """Outcomes that are told together are one step of the bounds."""
    opt = Optimizer(Box(x=(0.0, 1.0)), ["a", "b"], setting=Simulator([1, 1], radius=0.1, pick="uncertain"))
    for x in (0.0, 0.5, 1.0):
        opt.tell({"x": x}, {"a": x, "b": 1.0 - x})
    marks = marks_of(PageContents(opt).progress()["figure"])
    assert marks["outcome"].x == [1, 2, 3, 4, 5, 6]
    assert marks["bound of the recommended action under the shift"].x == [2, 4, 6]
    assert marks["bound of the recommended action under the shift"].y[-1] == pytest.approx(
        opt.recommend().trust.guess, rel=1e-6
    )


def test_a_condition_and_a_parameter_of_one_name_are_told_apart() -> None:
    opt = Optimizer(Box(x=(0.0, 1.0)), Perturbation(x=[-0.2, 0.1]), setting=Simulator(radius=0.1, pick="uncertain"))
    for x, xi in ((0.1, -0.2), (0.5, 0.1), (0.9, 0.1)):
        opt.tell({"x": x}, -((x + xi) ** 2), context={"x": xi})
    model = PageContents(opt).model()
    assert model is not None
    assert model["maps"][0]["name"] == "x and x (condition)"
    evaluations = marks_of(model["maps"][0]["figure"])["evaluations"]
    assert evaluations.x == pytest.approx([0.1, 0.5, 0.9], abs=1e-12)
    assert evaluations.y == pytest.approx([-0.2, 0.1, 0.1], abs=1e-12)


def test_the_page_of_nothing_yet(tmp_path: Path) -> None:
    opt = Optimizer(Box(x=(0.0, 1.0)), [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain"))
    text = write(opt, tmp_path / "empty.html").read_text(encoding="utf-8")
    assert "There is nothing to deploy. No outcome has been told yet." in text
    figure = 'id="fig-progress-0"'
    assert figure not in text  # an empty figure says nothing
    opt.tell(opt.ask(), 1.0)
    assert figure in page(opt, "one outcome")
    assert "Do not rely on it yet." in page(opt, "one outcome")


def test_one_outcome_and_one_action() -> None:
    opt = Optimizer([0.5], [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain"))
    opt.tell(opt.ask(), 3.0)
    assert '<data value="3.0">3</data>' in page(opt, "x")


def test_points_of_several_coordinates_have_a_page() -> None:
    """Their coordinates do not vary one by one: there is no map, and nothing to say of each of them."""
    rng = np.random.default_rng(0)
    actions, contexts = rng.random((7, 2)), rng.random((5, 3))
    opt = Optimizer(actions, contexts, setting=Simulator(np.ones(5), radius=0.2, pick="uncertain"), surrogate=FIXED)
    for i in range(5):
        opt.tell(actions[i], float(i % 3), context_index=i)
    text = page(opt, "x")
    assert 'id="fig-slice-1"' in text
    assert 'id="fig-matters"' not in text
    assert 'id="fig-map-0"' not in text


@pytest.mark.parametrize("outcome", [0.0, 7.0, -1e100, 1e-300])
def test_outcomes_that_are_all_the_same_have_a_page(outcome: float) -> None:
    opt = Optimizer([0.0, 1.0], [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain"), surrogate=FIXED)
    for i in range(4):
        opt.tell(float(i % 2), outcome, context_index=i // 2)
    text = page(opt, "x")
    assert not re.search(r'[ "](nan|inf|-inf)\b', text)


def test_the_total_effects_find_what_matters() -> None:
    opt = Optimizer(
        Box(a=(0.0, 1.0), b=(0.0, 1.0)),
        np.linspace(0, 1, 5),
        setting=Simulator(np.ones(5), radius=0.1, pick="uncertain"),
    )
    rng = np.random.default_rng(0)
    for _ in range(25):
        a, b = rng.random(2).tolist()
        opt.tell({"a": a, "b": b}, 5.0 * a + 0.5 * b, context_index=int(rng.integers(5)))
    matters = PageContents(opt).matters()
    assert matters is not None
    shares = matters["shares"]
    assert shares["a"] > 0.9
    assert max(shares["b"], shares["context"]) < 0.1


def test_a_title_is_escaped() -> None:
    text = page(grid(), "<script>alert(1)</script>")
    assert "<title>&lt;script&gt;" in text
    assert text.count("<script>alert(1)") == 0


def test_a_run_without_a_recommendation_has_a_page() -> None:
    failed = Optimizer([0.5], [0.0, 1.0], setting=Simulator([1, 1], radius=0.1, pick="uncertain"))
    failed.tell(0.5, failed=True, context_index=0)
    failed.tell(0.5, failed=True, context_index=1)
    assert "There is nothing to deploy. No outcome has been told yet." in page(failed, "x")
    general = Optimizer([0.0, 1.0], [0.0, 1.0], setting=General())
    general.tell(0.0, 1.0, context_index=0)
    assert "There is nothing to deploy. Reference is missing" in page(general, "x")
