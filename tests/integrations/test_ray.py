"""The searcher for Ray Tune, called as Ray calls it; a real cluster runs in tests/test_examples.py (`make doors`)."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo

pytest.importorskip("ray.tune", reason="pip install 'drbo[ray]'")

from drbo.integrations.ray import RobustSearcher

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5)), noise=0.1)
PAST = {"outdoor": np.linspace(-1.0, 1.0, 9)}


def optimizer(**more: Any) -> drbo.Optimizer:
    arguments = {"setting": drbo.Simulator(radius=0.1), "surrogate": FIXED, "maximize": False, **more}
    return drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), drbo.Samples(PAST, support=0), **arguments)


def cost(config: dict[str, float]) -> float:
    return (config["x"] - 0.5 * config["outdoor"]) ** 2


def test_a_trial_has_parameters_and_conditions_and_its_outcome_is_told() -> None:
    searcher, twin = RobustSearcher(optimizer(), metric="cost"), optimizer()
    for i in range(3):
        config, own = searcher.suggest(f"trial {i}"), twin.ask()
        assert config == {**own.action, **own.context}
        searcher.on_trial_complete(f"trial {i}", {"cost": cost(config), "done": True})
        twin.tell(own, cost(config))
    assert searcher.optimizer.recommend().value == twin.recommend().value
    assert (searcher.metric, searcher.mode) == ("cost", "min")


def test_trials_that_fail_or_stop_early() -> None:
    searcher = RobustSearcher(optimizer(), metric="cost")
    for name in ("raised", "not a number", "stopped", "without the metric"):
        searcher.suggest(name)
    searcher.on_trial_complete("raised", error=True)
    searcher.on_trial_complete("not a number", {"cost": math.nan})
    searcher.on_trial_complete("stopped")
    searcher.on_trial_complete("without the metric", {"loss": 1.0})
    searcher.on_trial_complete("of somebody else", {"cost": 1.0})
    assert [result.failed for result in searcher.optimizer.results] == [True, True]
    assert searcher.optimizer.pending == ()


def test_limits_are_read_from_the_report() -> None:
    searcher = RobustSearcher(optimizer(limits={"peak": drbo.AtMost(2.0)}), metric="cost", mode="min")
    for i, report in enumerate([{"peak": 1.5}, {"peak": math.nan}, {}]):
        config = searcher.suggest(str(i))
        searcher.on_trial_complete(str(i), {"cost": cost(config), **report})
    assert [result.limits.get("peak") for result in searcher.optimizer.results] == [1.5, None, None]


def test_conditions_that_nature_picks_are_reported() -> None:
    searcher = RobustSearcher(optimizer(setting=drbo.DataDriven()), metric="cost")
    assert searcher.suggest("a").keys() == {"x"}
    with pytest.raises(ValueError, match="must report the conditions that nature picked, and lacks outdoor"):
        searcher.on_trial_complete("a", {"cost": 1.0})
    searcher.on_trial_complete("a", {"cost": 1.0, "outdoor": 0.25})
    searcher.suggest("b")
    searcher.on_trial_complete("b", error=True)
    assert searcher.optimizer.results[0].context == {"outdoor": 0.25}


def test_a_restored_searcher_goes_on_with_equal_bits(tmp_path: Path) -> None:
    searcher, file = RobustSearcher(optimizer(), metric="cost"), str(tmp_path / "state")
    for i in range(3):
        config = searcher.suggest(str(i))
        searcher.on_trial_complete(str(i), {"cost": cost(config)})
    running = searcher.suggest("running")
    searcher.save(file)
    other = RobustSearcher(optimizer(), metric="cost")
    other.restore(file)
    for one in (searcher, other):
        one.on_trial_complete("running", {"cost": cost(running)})
    assert other.suggest("next") == searcher.suggest("next")
    assert other.optimizer.n_told == 4


def test_bad_input() -> None:
    with pytest.raises(TypeError, match=r"optimizer must be a drbo\.Optimizer"):
        RobustSearcher(None, metric="cost")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode must be 'min', as the optimizer has it, got 'max'"):
        RobustSearcher(optimizer(), metric="cost", mode="max")
    labels = drbo.Optimizer(["a", "b"], drbo.Samples(PAST, support=0), setting=drbo.Simulator(radius=0.1))
    with pytest.raises(TypeError, match=r"must have a drbo\.Box of actions"):
        RobustSearcher(labels, metric="cost")
    named = drbo.Optimizer(drbo.Box(outdoor=(0.0, 1.0)), drbo.Samples(PAST), setting=drbo.Simulator(radius=0.1))
    with pytest.raises(ValueError, match="outdoor is both"):
        RobustSearcher(named, metric="cost")
    unnamed = drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), drbo.Samples(np.eye(3)), setting=drbo.Simulator(radius=0.1))
    with pytest.raises(TypeError, match="conditions with names"):
        RobustSearcher(unnamed, metric="cost")
    searcher = RobustSearcher(optimizer(), metric="cost")
    with pytest.raises(ValueError, match="param_space must be empty"):
        searcher.set_search_properties("cost", "min", {"x": 1.0})
    assert searcher.set_search_properties("cost", "min", {})
    assert not searcher.set_search_properties("loss", "min", {})
