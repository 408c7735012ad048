"""Saved and resumed: a loaded optimizer goes on exactly as the saved one; other files are refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from drbo import GP, MMD, RBF, DataDriven, LearnedGP, Optimizer, Setting, Simulator
from heating import FIXED, SETTINGS, ask, make, tell


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
@pytest.mark.parametrize("surrogate", [FIXED, LearnedGP()], ids=["fixed", "learned"])
def test_a_loaded_optimizer_goes_on_as_the_saved_one(setting: Setting, surrogate: Any, tmp_path: Path) -> None:
    opt = make(setting, surrogate=surrogate)
    path = tmp_path / "state.json"
    for number in range(7):
        opt.save(path)
        loaded = Optimizer.load(path)
        a, b = ask(opt), ask(loaded)
        assert a.same_as(b), number
        assert a.score == b.score
        assert opt.recommend_iterate().value == loaded.recommend_iterate().value
        opt.save(path)  # with a pending suggestion
        opt = Optimizer.load(path)
        assert len(opt.pending) == 1 + (number > 3)
        if number == 3:
            tell(opt, ask(opt), number)  # one stays pending for ever
            opt.tell(ask(opt), failed=True)
        else:
            tell(opt, a, number)


SETS = [
    MMD(robos.C, robos.MMD_KERNEL), MMD(gram=RBF(5.0)(robos.C[:, None], robos.C[:, None])), drbo.TotalVariation(),
    drbo.KL(), drbo.ChiSquare(), drbo.CVaR(), drbo.Wasserstein(robos.C), drbo.Expectation(),
    drbo.Neighbourhood(robos.C),
]  # fmt: skip


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_every_set_and_rule_can_be_saved(ambiguity: drbo.AmbiguitySet, tmp_path: Path) -> None:
    rules: list[Any] = [
        0.2,
        math.inf,
        drbo.radius.Theoretical(0.1, 0.5),
        drbo.radius.Bootstrap(0.1, 20),
        drbo.radius.Decaying(1.0),
    ]
    surrogate = GP(robos.GP_KERNEL, 0.05)
    for rule in rules:
        opt = Optimizer(
            robos.X, robos.C, ambiguity=ambiguity, setting=DataDriven(radius=rule), surrogate=surrogate,
            beta=drbo.TheoreticalBeta(bound=1.0, noise=0.05),
        )  # fmt: skip
        for j in range(4):
            opt.tell(opt.ask(), 0.1 * j, context_index=3 * j)
        opt.save(tmp_path / "state.json")
        loaded = Optimizer.load(tmp_path / "state.json")
        np.testing.assert_array_equal(robos.posterior(loaded).mean, robos.posterior(opt).mean)
        assert opt.ask().same_as(loaded.ask())
    for line in (tmp_path / "state.json").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_saving_is_legal_before_the_first_result(tmp_path: Path) -> None:
    opt = make(Simulator(radius=0.2))
    opt.save(tmp_path / "state.json")
    assert ask(Optimizer.load(tmp_path / "state.json")).same_as(ask(opt))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a saved optimizer"),
        ("[1, 2]", "is not a saved optimizer: its format"),
        ('{"format": "something else"}', "is not a saved optimizer: its format"),
        ('{"format": "drbo optimizer", "version": 99}', "is of version 99; this drbo reads version 2"),
        ('{"format": "drbo optimizer", "version": 2}', "is damaged"),
        (
            '{"format": "drbo optimizer", "version": 2, "actions": {"kind": "Bomb"}}',
            "is damaged: it holds an unknown 'Bomb'",
        ),
    ],
)
def test_damaged_and_foreign_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Optimizer.load(path)
    assert path.read_text() == text


@pytest.mark.filterwarnings("ignore:ambiguity as a function:DeprecationWarning")
def test_what_cannot_be_saved_is_said_before_anything_is_written(tmp_path: Path) -> None:
    opt = make(Simulator(radius=0.2), ambiguity=lambda points: MMD(points, RBF(0.3)))
    path = tmp_path / "state.json"
    with pytest.raises(TypeError, match="save cannot write <function"):
        opt.save(path)
    assert not path.exists()
