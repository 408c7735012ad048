"""The view of a run in a terminal."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import drbo
from drbo import console as views

GRID = np.linspace(0.0, 1.0, 5)
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1)


def make(**more: Any) -> drbo.Optimizer:
    arguments = {
        "setting": drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain"),
        "surrogate": FIXED,
        "ambiguity": drbo.MMD(),
        **more,
    }
    return drbo.Optimizer(arguments.pop("actions", GRID), GRID, **arguments)


def printed(opt: drbo.Optimizer, name: str = "run.json", **more: Any) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(views.view(views.summary(opt), name, **more))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize("maximize", [True, False])
def test_a_summary_says_what_the_optimizer_says(maximize: bool) -> None:
    opt = make(maximize=maximize)
    for i in range(7):
        opt.tell(opt.ask(), float(i % 3))
    opt.tell(opt.ask(), failed=True)
    waiting = opt.ask(2)
    told = views.summary(opt)
    json.dumps(told, allow_nan=False)
    best = opt.recommend()
    assert told["deploy"]["value"] == best.value
    assert told["deploy"]["action"] == {"action": best.action[0]}
    assert best.statement in told["deploy"]["statement"]
    assert (told["outcomes"], len(told["failed"])) == (7, 1)
    assert [one["suggestion"] for one in told["pending"]] == [s.number for s in waiting]
    assert told["pending"][0]["contexts"] == [{"context": waiting[0].context[0]}]
    bounds = opt.under().narrowing(best.action)
    assert told["evaluation"] == bounds.evaluations.tolist()
    assert told["bound"] == bounds.bound.tolist()
    assert told["optimistic"] == bounds.optimistic.tolist()
    assert [one["result"] for one in told["last results"]] == [3, 4, 5, 6, 7]
    text = printed(opt)
    assert best.statement in text
    assert "7 outcomes, 1 failed, 2 pending" in text
    assert "the model's bound over time" in text  # without untried conditions: the bound of the statement may be worse
    assert max(map(len, text.splitlines())) <= 80
    assert printed(opt, ascii_only=True).isascii()


def test_nothing_to_deploy_is_said_in_words() -> None:
    assert "nothing to deploy: no outcome has been told yet" in printed(make())
    opt = make(actions=[[0.5]])
    opt.tell([0.5], 1.0, context=[0.5])
    opt.tell([0.5], failed=True, context=[0.5])
    assert "deploy action = 0.5" in printed(opt)  # one failure does not bar an action that has an outcome
    general = make(setting=drbo.General())
    general.tell([0.5], 1.0, context=[0.5])
    assert "nothing to deploy: " in printed(general)
    assert "reference" in printed(general)


def test_what_a_user_typed_is_text() -> None:
    nasty = "[bold red]a\x1b[31m\r\n<script>"
    opt = make(actions=[nasty, "b"])
    opt.tell(nasty, 1.0, context=[0.5])
    opt.tell("b", -5.0, context=[0.5])
    text = printed(opt, name="[link=x]run\x07")
    assert r"[link=x]run\x07" in text
    assert r"[bold red]a\x1b[31m\r\n<script>" in text.replace("\n", "")
    assert not {"\x1b", "\r", "\x07"} & set(text)


def test_the_view_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    opt = make()
    opt.tell(opt.ask(), 1.0)
    opt.save(path)
    loads: list[int] = []
    looks: list[None] = []

    def load() -> drbo.Optimizer:
        loads.append(len(looks))
        return drbo.Optimizer.load(path)

    def sleep(_: float) -> None:
        looks.append(None)
        if len(looks) == 3:  # two looks at the same file, then it has grown
            opt.tell(opt.ask(), 2.0)
            opt.save(path)
            os.utime(path, ns=(1, 1))  # also where the clock of the file system is coarse
        if len(looks) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr("drbo.console.time.sleep", sleep)
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with pytest.raises(KeyboardInterrupt):
        views.watch(path, load, console)
    assert loads == [0, 3]
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("1 outcomes") < text.index("2 outcomes")


def test_bars_go_from_the_least_to_the_largest() -> None:
    assert views._bars([0.0, 0.5, 1.0, 0.0], "abc") == "abca"
    assert views._bars([2.0, 2.0], "abc") == "aa"
