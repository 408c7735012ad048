"""Exactly one source decides who picks the context: the policy, which `Simulator(pick=...)` names."""

import copy
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, RBF, Informative, Optimism, Optimizer, Product, Simulator, Thompson, Uncertain, ValueOfInformation

FILES = Path(__file__).parent / "files_0_2"
POINTS = np.linspace(0.0, 1.0, 5)


def make(policy: Any = None, **pick: Any) -> Optimizer:
    setting = Simulator(np.full(5, 0.2), 0.2, **pick)
    return Optimizer(POINTS, POINTS, setting=setting, surrogate=GP(Product(RBF(0.3), RBF(0.3)), 0.1), policy=policy)


@pytest.mark.parametrize("pick", ["uncertain", "informative", "pessimistic", "valuable"])
def test_pick_beside_a_policy_is_refused(pick: str) -> None:
    """REVIEW V8: the policy won without a word."""
    words = rf"setting=Simulator\(pick='{pick}'\) and policy=Thompson\(contexts=None\) both say who picks the context"
    with pytest.raises(ValueError, match=words):
        make(Thompson(), pick=pick)


def test_the_default_leaves_it_to_the_policy() -> None:
    assert make().configuration.policy == Optimism(Informative())
    assert make(pick=None).configuration.policy == Optimism(Informative())
    assert make(pick="valuable").configuration.policy == ValueOfInformation()
    assert make(Thompson(Uncertain())).configuration.policy == Thompson(Uncertain())
    assert repr(Simulator(radius=0.1)) == "Simulator(radius=Constant(value=0.1))"
    assert repr(Simulator(radius=0.1, pick="valuable")) == "Simulator(radius=Constant(value=0.1), pick='valuable')"


@pytest.mark.parametrize("policy", [Thompson(), Optimism(), drbo.MeanEmbedding()])
def test_a_policy_that_picks_no_context_leaves_it_to_the_caller(policy: Any) -> None:
    opt = make(policy)
    s = opt.ask()
    assert s.context is None
    with pytest.raises(TypeError, match=r"needs the observed context.*picks none.*contexts=drbo.Informative\(\)"):
        opt.tell(s, 1.0)
    opt.tell(s, 1.0, context=POINTS[2])
    assert opt.n_told == 1


def test_where_nature_picks_no_rule_is_recommended() -> None:
    opt = Optimizer(POINTS, POINTS, setting=drbo.DataDriven(), surrogate=GP(Product(RBF(0.3), RBF(0.3)), 0.1))
    with pytest.raises(TypeError, match=r"either as context=c or as context_index=j$"):
        opt.tell(opt.ask(), 1.0)


@pytest.mark.parametrize(
    ("name", "asked", "value"),
    [
        ("default", [(1, 0), (3, 1), (1, 4), (4, 3)], -1.5214982792016425),
        ("policy", [(0, 1), (0, 4), (3, 3), (0, 0)], -1.2851365148354377),
        ("both", [(0, 1), (0, 4), (3, 3), (0, 0)], -1.2851365148354377),
        ("valuable", [(1, 2), (3, 0), (3, 4), (2, 0)], -1.5582293579801343),
    ],
)
def test_files_of_0_2_go_on_as_they_did(name: str, asked: list[tuple[int, int]], value: float, tmp_path: Path) -> None:
    """Version 0.2 wrote these files, and suggested `asked` after it had written them. It always recorded `pick`."""
    path = tmp_path / "run.drbo"
    shutil.copy(FILES / f"{name}.drbo", path)
    if name == "both":
        with pytest.warns(UserWarning, match=r"has setting=Simulator\(pick='valuable'\) and policy=Thompson"):
            opt = Optimizer.load(path)
    else:
        opt = Optimizer.load(path)
    copies = [copy.deepcopy(opt), pickle.loads(pickle.dumps(opt)), opt]
    opt.save(path)
    old, new = (
        [json.loads(line)["record"] for line in one.read_text().splitlines()] for one in (FILES / f"{name}.drbo", path)
    )
    assert (old[0]["format"], new[0]["format"]) == (3, 4)
    before = json.dumps(old[0]["configuration"]).replace("certificate_beta", "bound_beta")
    assert before.replace('["pick", "informative"]', '["pick", null]') == json.dumps(new[0]["configuration"])
    for one in copies:
        assert [(s.action_index, s.context_index) for s in (one.ask() for _ in range(4))] == asked
        assert one.recommend().value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", ["default", "policy", "valuable"])
def test_what_is_made_now_resumes_files_of_0_2(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.drbo"
    shutil.copy(FILES / f"{name}.drbo", path)
    given: dict[str, dict[str, Any]] = {
        "default": {},
        "policy": {"policy": Thompson(Uncertain())},
        "valuable": {"pick": "valuable"},
    }
    opt = make(**given[name])
    opt.resume(path)
    assert opt.n_told == 3
