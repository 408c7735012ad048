"""Two runs, or two moments of one: what changed, and why."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from drbo import Box, Optimizer, Simulator
from drbo.report import write
from drbo.report.changes import changes
from drbo.report.contents import PageContents


def run(n: int, radius: float = 0.1) -> Optimizer:
    opt = Optimizer(
        Box(x=(0.0, 1.0)), {"a": 1, "b": 1}, setting=Simulator(radius=radius, pick="uncertain"), maximize=False
    )
    for i in range(n):
        x = (0.37 * i) % 1.0
        opt.tell({"x": x}, (x - 0.3) ** 2 + 0.2 * (i % 2) * x, context="ab"[i % 2])
    return opt


@pytest.fixture(autouse=True)
def same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo.knowledge.history.now", lambda: 0.0)


def test_two_moments_of_one_run() -> None:
    now, before = run(9), run(6)
    found = changes(PageContents(now), PageContents(before))
    assert found["paragraphs"][0] == ("The other file is an earlier state of this run: 3 evaluations came since then.")
    assert changes(PageContents(before), PageContents(now))["paragraphs"][0].startswith(
        "The other file is a later state"
    )
    rows = {name: (was, this) for name, was, this in found["rows"]}
    assert rows["evaluations"] == ("6", "9")
    assert rows["x"] == tuple(f"{opt.recommend().action['x']:.4g}" for opt in (before, now))
    if now.recommend().action != before.recommend().action:
        assert f"{now.bound(before.recommend().action).trust.guess:.4g}" in " ".join(found["paragraphs"])
        assert f"{before.bound(now.recommend().action).trust.guess:.4g}" in " ".join(found["paragraphs"])


def test_two_runs_with_other_arguments() -> None:
    found = changes(PageContents(run(6, radius=0.4)), PageContents(run(6)))
    assert "The argument setting is Simulator(" in " ".join(found["paragraphs"])
    assert found["paragraphs"][0].startswith("Both files have the same 6 evaluations.")
    other = Optimizer(Box(y=(0.0, 1.0)), {"a": 1, "b": 1}, setting=Simulator(radius=0.1, pick="uncertain"))
    other.tell({"y": 0.2}, 1.0, context="a")
    said = " ".join(changes(PageContents(run(3)), PageContents(other))["paragraphs"])
    assert "two separate runs: this one has 3 evaluations, the other has 1 evaluation." in said
    assert "different outcomes, so their bounds cannot be compared" in said  # one is minimised, the other maximised
    other = Optimizer(
        Box(y=(0.0, 1.0)), {"a": 1, "b": 1}, setting=Simulator(radius=0.1, pick="uncertain"), maximize=False
    )
    other.tell({"y": 0.2}, 1.0, context="a")
    assert "choose among different actions" in " ".join(
        changes(PageContents(run(3)), PageContents(other))["paragraphs"]
    )


def test_a_run_without_an_outcome(tmp_path: Path) -> None:
    path = write(run(3), tmp_path / "page.html", against=run(0))
    assert "Only one of the two has a recommendation." in path.read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="against must be an Optimizer"):
        write(run(0), tmp_path / "page.html", against="run.json")  # type: ignore[arg-type]


def test_the_same_action_with_another_bound_has_a_reason() -> None:
    now, before = (PageContents(run(9, radius=radius)) for radius in (0.4, 0.0))
    assert now.recommended is not None
    assert before.recommended is not None
    before.recommended = replace(before.recommended, action=now.recommended.action)
    parts = [one.recommended.explain() for one in (now, before)]  # type: ignore[union-attr]
    said = " ".join(changes(now, before)["paragraphs"])
    assert "The recommended action is the same." in said
    amounts = re.search(
        r"The largest difference is the cost of [^:]*: ([-\d.e]+) in this run and ([-\d.e]+) in the", said
    )
    assert amounts
    most = max(abs(getattr(parts[0], n) - getattr(parts[1], n)) for n in ("shift", "ignorance", "untried", "expected"))
    assert abs(float(amounts[1]) - float(amounts[2])) == pytest.approx(most, rel=1e-2)


def test_an_action_whose_stated_bound_is_worse_has_a_reason() -> None:
    """Actions are ranked by the model's bound, which may prefer an action that was tried in fewer conditions."""
    now, before = PageContents(run(9)), PageContents(run(6))
    assert now.recommended is not None
    assert before.recommended is not None
    other = now.opt.bound({"x": 0.37})
    now.recommended = replace(now.recommended, action={"x": 0.9}, value=other.value + 1.0)
    before.recommended = replace(before.recommended, action={"x": 0.37})
    said = " ".join(changes(now, before)["paragraphs"])
    assert f"With the results of this run they are {other.value:.4g} for the other run's action" in said
    assert "keep the other one" in said
