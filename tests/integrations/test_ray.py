"""The searcher for Ray Tune, called as Ray calls it, and with a real cluster: workers that die, runs that go on."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo

ray: Any = pytest.importorskip("ray", reason="pip install 'drbo[ray]'")
tune: Any = pytest.importorskip("ray.tune", reason="pip install 'drbo[ray]'")

from drbo.integrations.ray import RobustSearcher  # noqa: E402

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
    with pytest.raises(ValueError, match="must report the conditions that nature picked, but lacks outdoor"):
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
    with pytest.raises(ValueError, match="must not have the same name, got outdoor"):
        RobustSearcher(named, metric="cost")
    unnamed = drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), drbo.Samples(np.eye(3)), setting=drbo.Simulator(radius=0.1))
    with pytest.raises(TypeError, match="conditions with names"):
        RobustSearcher(unnamed, metric="cost")
    searcher = RobustSearcher(optimizer(), metric="cost")
    with pytest.raises(ValueError, match="param_space must be empty"):
        searcher.set_search_properties("cost", "min", {"x": 1.0})
    assert searcher.set_search_properties("cost", "min", {})
    assert not searcher.set_search_properties("loss", "min", {})


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


def trainable(mark: Path) -> Any:
    """Return a function that kills its process unless the mark is there; as a local one it is pickled by value."""

    def evaluate(config: dict[str, float]) -> dict[str, float]:
        if config["x"] > 0.6 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return {"cost": (config["x"] - 0.5 * config["outdoor"]) ** 2}

    return evaluate


def tuner(searcher: RobustSearcher, folder: Path, trials: int, **more: Any) -> Any:
    return tune.Tuner(
        trainable(folder / "died"),
        tune_config=tune.TuneConfig(search_alg=searcher, num_samples=trials, max_concurrent_trials=2),
        run_config=tune.RunConfig(storage_path=str(folder), name="heating", verbose=0, **more),
    )


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("retries", [0, 1])
def test_a_worker_that_dies(tmp_path: Path, retries: int) -> None:
    """Without retries the trial is a failure; with one, Ray evaluates the same point again, and it counts once."""
    searcher = RobustSearcher(optimizer(), metric="cost")
    again = tune.FailureConfig(max_failures=retries)
    tuner(searcher, tmp_path, 6, failure_config=again).fit()
    assert (tmp_path / "died").exists()
    results = searcher.optimizer.results
    assert {r.number for r in results} == {*range(6)}
    assert len(results) == 6
    assert sum(r.failed for r in results) == 1 - retries
    assert searcher.optimizer.pending == ()
    for r in results:
        assert r.failed or r.outcome == pytest.approx(cost({**r.action, **r.context}))


@pytest.mark.usefixtures("cluster")
def test_a_run_that_broke_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "0")
    (tmp_path / "died").touch()

    class Broken(tune.Callback):  # type: ignore[misc]
        def on_step_end(self, iteration: int, trials: list[Any], **more: Any) -> None:
            del iteration, more
            broke = tmp_path / "broke"  # a restored run has this callback, too
            if sum(one.status == "TERMINATED" for one in trials) == 3 and not broke.exists():
                broke.touch()
                raise RuntimeError("the driver broke")

    first = tuner(RobustSearcher(optimizer(), metric="cost"), tmp_path, 6, callbacks=[Broken()])
    with pytest.raises(RuntimeError, match="the driver broke"):
        first.fit()
    evaluate = trainable(tmp_path / "died")
    trials = tune.Tuner.restore(str(tmp_path / "heating"), trainable=evaluate, resume_unfinished=True).fit()
    assert len(trials) == 6
    searcher = RobustSearcher(optimizer(), metric="cost")
    searcher.restore_from_dir(str(tmp_path / "heating"))
    results = searcher.optimizer.results
    assert {r.number for r in results} == {*range(6)}
    assert {r.outcome for r in results} == {one.metrics["cost"] for one in trials}
    assert len(results) == 6
