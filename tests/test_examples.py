"""The examples run as they are, within seconds, and each is short enough to read in one go."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.spaces.space import Point

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return an example as a module that worker processes can import."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)


def test_every_example_is_short_and_tested() -> None:
    files = {path.stem: path for path in EXAMPLES.glob("*.py")}
    tests = Path(__file__).read_text()
    assert [name for name in files if f'example("{name}", ' not in tests] == []
    for path in files.values():
        assert len(path.read_text().splitlines()) <= 60, path


def test_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("simulator", monkeypatch)
    r = module.main(rounds=12)
    days = [dict(zip(("outdoor", "occupancy"), row, strict=True)) for row in module.archive().tolist()]

    def cost(action: dict[str, Any]) -> float:
        return float(np.mean([module.simulate(action, day) for day in days]))

    box = drbo.Box(
        setpoint=(18.0, 24.0), gain=drbo.Log(1e-3, 1.0), stages=drbo.Integer(1, 4),
        mode=drbo.Categorical("eco", "boost"),
    )  # fmt: skip
    anything = np.mean([cost(box.decode(Point(point))) for point in box.sample(64, seed=0)])
    assert cost(r.action) < 0.6 * anything
    counted = r.trust.verdict == "extrapolated" and r.trust.stressed != r.trust.guess
    word = "estimated" if r.trust.verdict == "checked" or counted else "a guess"
    assert r.statement.startswith(f"{word}: at most")
    assert r.statement in str(r)


def test_production_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("production", monkeypatch)
    monkeypatch.setattr("drbo.knowledge.history.now", lambda: 0.0)  # records have a time, which differs
    without_a_stop = module.main(tmp_path / "one.json", shifts=8)
    run_shift = module.run_shift

    def power_cut(action: dict[str, float], number: int) -> tuple[float, dict[str, float]]:
        if number == 5:
            raise KeyboardInterrupt
        return run_shift(action, number)  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "run_shift", power_cut)
    with pytest.raises(KeyboardInterrupt):
        module.main(tmp_path / "two.json", shifts=8)
    monkeypatch.setattr(module, "run_shift", run_shift)
    resumed = module.main(tmp_path / "two.json", shifts=3)
    assert resumed.action == without_a_stop.action
    assert resumed.value == without_a_stop.value
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()


def test_a_newsvendor_goes_on_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("newsvendor_weekday", monkeypatch)
    monkeypatch.setattr("drbo.knowledge.history.now", lambda: 0.0)  # records have a time, which differs
    without_a_crash = module.main(tmp_path / "one.json", days=8)
    demand_of = module.demand_of

    def crash(day: int) -> float:
        if day == 5:
            raise KeyboardInterrupt
        return demand_of(day)  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "demand_of", crash)
    with pytest.raises(KeyboardInterrupt):
        module.main(tmp_path / "two.json", days=8)
    monkeypatch.setattr(module, "demand_of", demand_of)
    resumed = module.main(tmp_path / "two.json", days=3)
    for weekday, r in without_a_crash.items():
        assert r.given == {"weekday": weekday}
        assert (resumed[weekday].action, resumed[weekday].value) == (r.action, r.value)
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert without_a_crash["Sat"].action["order"] > without_a_crash["Tue"].action["order"]


def test_a_log_becomes_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    r = example("log_to_decision", monkeypatch).main()
    assert r.action["rate"] == 2
    assert 20.0 < r.action["dose"] < 36.0  # 42 - 0.25 * 55 = 28.25 in ward A
    assert 60.0 < r.trust.guess < 80.0
    assert r.trust.stressed == r.value <= r.trust.guess


def test_a_large_log_becomes_a_decision_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = example("large_log", monkeypatch).main(tmp_path, count=150)  # the slow test has the whole log
    assert 70.0 < r.action["temperature"] < 90.0
    assert (tmp_path / "trials.html").stat().st_size > 1e5


@pytest.mark.slow
def test_a_large_log_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = example("large_log", monkeypatch).main(tmp_path, count=5000)
    assert r.approximation is not None
    assert 74.0 < r.action["temperature"] < 86.0
    assert (tmp_path / "trials.html").stat().st_size < 3e6


def test_pool_with_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = example("pool_with_failures", monkeypatch).main
    r = main(tmp_path / "wing.json", evaluations=10, workers=2)
    assert 0.0 <= r.action["angle"] <= 14.0
    assert r.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(r.value)
    main(tmp_path / "wing.json", evaluations=12, workers=2)  # the same line goes on
    assert drbo.Optimizer.load(tmp_path / "wing.json").n_told == 12


@pytest.mark.filterwarnings("ignore")  # what torch and BoTorch warn of is their own affair
def test_botorch_acqf(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    best = example("botorch_acqf", monkeypatch).main(evaluations=2)
    said = capsys.readouterr().out
    if importlib.util.find_spec("botorch") is None:
        assert best is None
        assert said.endswith("is not installed; this needs: pip install 'drbo[botorch]'\n")
    else:
        assert 0.0 <= best <= 1.0
        assert said.startswith("deploy x = ")


def test_dask_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    path = f"{Path(drbo.__file__).parents[1]}:{EXAMPLES}"
    monkeypatch.setenv("PYTHONPATH", path)  # of the workers
    r = example("dask_run", monkeypatch).main(evaluations=6, workers=2)
    assert 60.0 <= r.action["temperature"] <= 100.0
    assert np.isfinite(r.value)


def test_libensemble_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libensemble")
    r = example("libensemble_run", monkeypatch).main(evaluations=8, workers=2)
    assert 0.0 <= r.action["magnet"] <= 2.0
    assert r.limits["charge"].value > 2.5


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_ray_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="pip install 'drbo[ray]'")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))  # Ray's processes import the module of the trial
    r = example("ray_tune", monkeypatch).main(evaluations=10, workers=1)
    ray.shutdown()
    assert 17.0 <= r.action["setpoint"] <= 24.0
    assert r.limits["coldest"].threshold == 18.0


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_mlflow_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'drbo[mlflow]'")
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    run = mlflow.MlflowClient(address).get_run(example("mlflow_run", monkeypatch).main(address, evaluations=4))
    assert 18.0 <= float(run.data.params["recommended.setpoint"]) <= 24.0


def test_floor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    earned = example("floor", monkeypatch).main(days=6)
    assert np.mean(earned) > 120.0
    assert capsys.readouterr().out.count("day ") == 6


def test_choose_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW U4, U5 and U9: the radius of an independent past is small, and says what it means."""
    radius, meaning, table = example("choose_radius", monkeypatch).main(rounds=8)
    assert 0.02 < radius < 0.2  # version 0.1 said 0.217, and a sixth of everything is 0.19
    assert meaning.share < 0.2
    assert "every day's demand lower by" in str(meaning)
    assert (np.diff(table.bound) <= 1e-6).all()


def test_optuna_with_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna", reason="the example is for drbo[optuna]")
    monkeypatch.setenv("PYTHONPATH", str(Path(drbo.__file__).parents[1]))
    module = example("optuna_two_processes", monkeypatch)
    r = module.main(tmp_path / "heating.db", trials=6)
    study = module.open_study(f"sqlite:///{tmp_path / 'heating.db'}")
    done = [t for t in study.trials if t.state.name == "COMPLETE"]
    assert 6 <= len(done) <= 7  # the other process may be in the middle of a trial
    assert len({tuple(t.params.values()) for t in study.trials}) == len(study.trials)
    assert r.action.keys() == {"setpoint", "gain"}


def test_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    r = example("patients", monkeypatch).main(trainings=6)
    assert r.contexts == ("young", "middle", "old")
    assert r.reference.tolist() == pytest.approx([0.62, 0.29, 0.09])
    assert r.weights[2] == pytest.approx(0.4)  # the old do worst with what suits the young
    assert "share of old" in " ".join(str(r).split())


def test_plant_with_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds in the true worst case, and a flow that is smaller by a tenth breaks it."""
    module = example("plant_with_limit", monkeypatch)
    r = module.main(16)
    outdoor = module.archive()

    def worst_peak(flow: float) -> float:
        """Return the peak after a shift of 3 degrees: it is increasing and convex in the weather, so all days move."""
        values = [module.plant({"flow": flow}, {"outdoor": c})[1]["peak"] for c in outdoor]
        warm, most = outdoor > 0.0, outdoor.max()
        room = np.where(warm, most - outdoor, 0.0)  # each degree of a warm day costs half a degree, up to the largest
        assert room.sum() / len(outdoor) > 3.0
        return float(np.mean(values)) + 0.5 * 3.0

    assert r.limits["peak"].holds
    assert worst_peak(r.action["flow"]) <= module.LIMIT + 1e-6
    assert worst_peak(0.9 * r.action["flow"]) > module.LIMIT


def test_optuna_with_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds where the weather is colder by 2 degrees, and the setpoint is not far above what it needs."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    module = example("optuna_with_limit", monkeypatch)
    r = module.main(tmp_path / "limit.db", 16)
    study = module.open_study(f"sqlite:///{tmp_path / 'limit.db'}")
    assert len(study.trials) == 16
    outdoor = np.clip(np.random.default_rng(0).normal(5.0, 8.0, 40), -20.0, 35.0)
    _, coldest = module.simulate(**r.action, outdoor=float(outdoor.mean()) - 2.0)
    assert r.limits["coldest"].holds
    assert module.COLDEST - 1e-9 <= coldest <= module.COLDEST + 1.5


def test_replay_days(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("replay_days", monkeypatch)
    opt, r = module.main(rounds=5)
    courses = module.archive()
    for result in opt.results:
        by_hand = module.income(result.action["promise"], result.action["battery"], courses[result.key])
        assert result.outcome == by_hand
        assert result.context["mean"] == pytest.approx(courses[result.key].mean())
    assert len(r.contexts) == len(courses)


def test_rolling_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("rolling_origin", monkeypatch)
    judged, name, radius = module.main(horizon="60D")
    rows = {row["rule"]: row for row in judged.rows()}
    assert rows["Bootstrap"]["held"] < 0.2  # independent days are not what a wind farm has
    assert name == "Calibrated"
    assert rows[name]["held"] >= 0.8
    assert 0.3 < radius < 2.0


def test_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("mixture", monkeypatch)
    r = module.main(evaluations=8)
    assert sum(r.action.values()) == pytest.approx(1.0, abs=1e-9)
    assert sum(module.PRICE[name] * share for name, share in r.action.items()) <= 45.0 + 1e-6
    assert 0.0 in (r.action["ash"], r.action["slag"])

    def mean(mix: dict[str, float]) -> float:
        return float(np.mean([module.strength(mix, {"temperature": t}) for t in (0.0, 6.0, 12.0, 18.0)]))

    anything = np.mean([mean(module.BOX.decode(point)) for point in module.BOX.spread(64, 0)])
    assert mean(r.action) > anything


def test_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("schedule", monkeypatch)
    r = module.main(evaluations=8)
    hours = [r.action[name] for name in ("on 1", "off 1", "on 2", "off 2")]
    assert np.diff(hours) == pytest.approx(np.maximum(np.diff(hours), [1.0, 2.0, 1.0]), abs=1e-6)
    assert hours[1] - hours[0] + hours[3] - hours[2] <= 14.0 + 1e-6
    assert 0.25 * module.PRICES @ module.runs(r.action) == pytest.approx(module.energy(r.action, {}))


def test_model_selection(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    search = example("model_selection", monkeypatch).main(candidates=8)
    said = capsys.readouterr().out
    if importlib.util.find_spec("sklearn") is None:
        assert said.endswith("is not installed; this needs: pip install 'drbo[sklearn]'\n")
        return
    assert "whose share of old is from 10.0% to 60.0%" in said
    assert "<- binds" in said
    later = float(said.rsplit(":", 1)[1])
    assert later < -search.best_score_  # the bound held on rows that nobody had seen
