"""Studies of Optuna, acquisition functions of BoTorch, CSV files, logs and reports refuse junk, and change nothing."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import drbo
from bad_input import JUNK, C, Call, P, optimizer
from drbo import problems
from drbo.integrations import optuna as integration
from drbo.report import write
from integrations.weather import HISTORY, make, objective, study_of

GIVEN_BY_OPTUNA = {
    "before_trial", "after_trial", "infer_relative_search_space", "sample_relative", "sample_independent",
}  # fmt: skip
"""Methods that Optuna calls, with arguments of its own."""
OTHER_WORDS = {
    ("read_wind_csv", "path"): "junk",
    ("read_wind_csv", "time_column"): "no column is called",
    ("read_wind_csv", "power_column"): "no column is called",
}


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = study_of(make())
    made.optimize(objective, n_trials=3)
    return made


def trials(study: optuna.Study) -> list[Any]:
    """Return what a study holds."""
    return [(t.number, t.state, t.params, t.user_attrs, t.value) for t in study.trials]


def calls(study: optuna.Study, folder: Path) -> dict[str, Call]:
    """Return every public function of the rooms around the optimizer, called well."""
    series = problems.WindSeries("two days", np.arange("2020-01", "2020-01-03", dtype="datetime64[h]"), np.arange(48.0))
    table = folder / "series.csv"
    table.write_text("time,power\n" + "".join(f"2020-01-01 {h:02}:00,{h}\n" for h in range(24)))
    nature = study_of(make(setting=drbo.DataDriven(radius=0.1)))
    observed = {name: float(column[0]) for name, column in HISTORY.items()}
    return {
        "RobustSampler": Call(
            integration.RobustSampler, contexts=drbo.Samples(HISTORY), setting=drbo.Simulator(radius=0.1)
        ),
        "from_study": Call(integration.RobustSampler.from_study, study=study),
        "optimizer": Call(make().optimizer, study=study),
        "recommend": Call(make().recommend, study=study),
        "observe": Call(integration.observe, trial=nature.ask(), conditions=observed),
        "get_robust_params": Call(integration.get_robust_params, study=study),
        "get_robust_trial": Call(integration.get_robust_trial, study=study),
        "RetryingStorage": Call(integration.RetryingStorage, url=f"sqlite:///{folder / 'retried.db'}", wait=0.0),
        "plot_bounds": Call(integration.plot_bounds, study=study),
        "plot_worst_case": Call(integration.plot_worst_case, study=study),
        "plot_radii": Call(integration.plot_radii, study=study, radii=[0.1]),
        "read_wind_csv": Call(problems.read_wind_csv, path=table),
        "WindSeries": Call(problems.WindSeries, name="x", times=series.times, power=series.power),
        "wind": Call(problems.wind, series=series, time="2020-01-02T12", hours=24, size=10),
        "windows": Call(problems.windows, power=series.power, hours=5),
        "report.write": Call(write, opt=optimizer(), path=folder / "page.html"),
    }


def calls_of_botorch() -> dict[str, Call]:
    """Return what is there for BoTorch, called well."""
    torch = pytest.importorskip("torch", reason="torch is large: `make botorch` brings it")
    models = pytest.importorskip("botorch.models")
    from drbo.integrations import botorch

    on = {"contexts": C, "ambiguity": drbo.MMD(kernel=drbo.RBF(0.3)), "reference": P, "radius": 0.1}
    x = torch.linspace(0.0, 1.0, 6, dtype=torch.double).reshape(3, 2)
    model = models.SingleTaskGP(x, x.sum(dim=1, keepdim=True))
    both = models.SingleTaskGP(x, x)
    made = {
        "WorstCaseExpectation": Call(botorch.WorstCaseExpectation, **on),
        "RobustExpectation": Call(botorch.RobustExpectation, **on),
        "RobustOutcomes": Call(botorch.RobustOutcomes, model=both, limits={1: drbo.AtMost(1.0)}, **on),
        "RobustUpperConfidenceBound": Call(botorch.RobustUpperConfidenceBound, model=model, **on),
        "TorchSurrogate": Call(botorch.TorchSurrogate, make_model=botorch.SingleTask(), fitted=True),
    }
    no_arguments = {"SingleTask", "TorchFit"}  # the latter is what a surrogate learned
    assert set(made) == set(botorch.__all__) - no_arguments  # a new one without a call fails here
    return made


ANY = {
    "WindSeries(name)", "WindSeries(repairs)", "WindSeries(notes)",  # texts that are only shown
    "RobustUpperConfidenceBound(model)", "RobustUpperConfidenceBound(posterior_transform)",  # BoTorch's own
    "RobustExpectation(preprocessing_function)", "RobustOutcomes(model)",
    *(
        f"RetryingStorage({name})"  # Optuna's own
        for name in ("engine_kwargs", "heartbeat_interval", "grace_period", "heartbeat_stale_trial_callback")
    ),
}  # fmt: skip


def faults_of(every: dict[str, Call]) -> list[str]:
    """Return what is refused in a way that does not help, and what takes anything."""
    faults = []
    for name, call in every.items():
        for argument in call.arguments:
            where = f"{name}({argument})"
            if where in ANY:
                continue
            answers = {kind: call.with_junk(argument, junk) for kind, junk in JUNK.items()}
            if all(error == "accepted" for error, _ in answers.values()):
                faults.append(f"{where} takes anything")
            for kind, (error, message) in answers.items():
                of_a_file = argument == "path" and error in ("FileNotFoundError", "OSError")
                if error not in ("accepted", "TypeError", "ValueError", "WindDataError") and not of_a_file:
                    faults.append(f"{where} with {kind}: {error}: {message[:90]}")
                elif error != "accepted" and not any(
                    word in message for word in (argument, OTHER_WORDS.get((name, argument), argument))
                ):
                    faults.append(f"{where} with {kind} does not name it: {error}: {message[:90]}")
    return faults


def test_junk_is_refused_by_the_name_of_its_argument(
    study: optuna.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, every = trials(study), calls(study, tmp_path)
    assert faults_of(every) == []
    assert trials(study) == before
    assert sum(len(call.arguments) * len(JUNK) for call in every.values()) > 300


def test_botorch_refuses_junk_by_the_name_of_its_argument() -> None:
    assert faults_of(calls_of_botorch()) == []


def test_no_public_function_is_left_out(study: optuna.Study, tmp_path: Path) -> None:
    wanted = {name for name in integration.__all__ if name != "Levels"}  # made of Optuna's distributions
    methods = inspect.getmembers(integration.RobustSampler, inspect.isfunction)
    wanted |= {
        name for name, one in methods if not name.startswith("_") and one.__qualname__.startswith("RobustSampler.")
    }
    assert wanted - set(calls(study, tmp_path)) - GIVEN_BY_OPTUNA == set()


# --- CSV files ------------------------------------------------------------------------------------------------------

HOURS = [f"2020-01-01 {h:02}:00" for h in range(24)]
GOOD = "time,power\n" + "".join(f"{hour},{i}\n" for i, hour in enumerate(HOURS))
TABLES: dict[str, tuple[str, str]] = {
    "nothing": ("", "no rows below a header"),
    "a header alone": ("time,power\n", "no rows below a header"),
    "no header": ("".join(f"{hour},{i}\n" for i, hour in enumerate(HOURS)), "column"),
    "one column": ("time\n2020-01-01 00:00\n", "column"),
    "no time": (GOOD.replace("time", "x"), "time_column"),
    "no power": (GOOD.replace("power", "x"), "power_column"),
    "two powers": (GOOD.replace("time,power", "time,power a,power b"), "power_column"),
    "one cell too many (F10)": (GOOD.replace("05:00,5", "05:00,1,5"), "line 7"),
    "one cell missing": (GOOD.replace("05:00,5", "05:00"), "line 7"),
    "words": (GOOD.replace("05:00,5", "05:00,five"), "line 7"),
    "negative": (GOOD.replace("05:00,5", "05:00,-5"), "negative"),
    "infinite": (GOOD.replace("05:00,5", "05:00,inf"), "line 7"),
    "no date": (GOOD.replace("2020-01-01 05:00", "yesterday"), "line 7"),
    "a 13th month": (GOOD.replace("2020-01-01 05:00", "2020-13-01 05:00"), "line 7"),
    "all zero": ("time,power\n" + "".join(f"{hour},0\n" for hour in HOURS), "zero in every hour"),
    "a quotation mark that stays open": (GOOD.replace("05:00,5", '"05:00,5'), "line 7"),
    "a hole of many days": (GOOD + "2020-03-01 00:00,3\n", "gap"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_csv_file_that_makes_no_sense(name: str, tmp_path: Path) -> None:
    text, words = TABLES[name]
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(problems.WindDataError, match=words) as caught:
        problems.read_wind_csv(tmp_path / "table.csv")
    assert "table.csv" in str(caught.value)


def test_a_csv_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(b"time,power\n\xff\xfe\x00\n")
    with pytest.raises(problems.WindDataError, match=r"table\.csv: not a text file"):
        problems.read_wind_csv(tmp_path / "table.csv")


# --- logs -----------------------------------------------------------------------------------------------------------

LOG: dict[str, Any] = {"x": [0.1, 0.5, 0.9], "c": [0.0, 0.5, 1.0], "y": [1.0, 2.0, 1.5], "e": [0.1, 0.1, 0.1]}
LOGS: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = {
    "a column that is not there": ({}, {"actions": ["z"]}, ValueError, "z"),
    "a context that is not there": ({}, {"contexts": ["z"]}, ValueError, "z"),
    "an outcome that is not there": ({}, {"outcome": "z"}, ValueError, "z"),
    "one column twice": ({}, {"contexts": ["x"]}, ValueError, "x"),
    "the outcome as a context": ({}, {"contexts": ["y"]}, ValueError, "y"),
    "rows of many lengths": ({"c": [0.0]}, {}, ValueError, "c"),
    "words as outcomes": ({"y": ["a", "b", "c"]}, {}, (TypeError, ValueError), "y"),  # type: ignore[dict-item]
    "an infinite outcome": ({"y": [1.0, np.inf, 2.0]}, {}, ValueError, "y|outcome"),
    "a hole in an action": ({"x": [0.1, np.nan, 0.9]}, {}, ValueError, "x"),
    "a hole in a context": ({"c": [0.1, np.nan, 0.9]}, {}, ValueError, "c"),
    "a negative error": ({"e": [0.1, -0.1, 0.1]}, {"stderr": "e"}, ValueError, "stderr"),
    "no rows": ({"x": [], "c": [], "y": [], "e": []}, {}, ValueError, "row|frame"),
    "both a radius and a setting": ({}, {"setting": drbo.DataDriven(radius=0.1)}, TypeError, "radius"),
    "neither": ({}, {"radius": None}, TypeError, "radius"),
    "a time that is none": ({"t": ["a", "b", "c"]}, {"time": "t"}, (TypeError, ValueError), "t"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_makes_no_sense(name: str) -> None:
    columns, arguments, error, words = LOGS[name]
    given: dict[str, Any] = {"actions": ["x"], "contexts": ["c"], "outcome": "y", "radius": 0.1, **arguments}
    with pytest.raises(error, match=words):
        drbo.Optimizer.from_frame({**LOG, **columns}, **given)


# --- reports --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"path": "folder"}, OSError, "folder could not be written: Is a directory"),
        ({"path": "text/page.html"}, OSError, "text/page.html could not be written"),
        ({"path": ""}, (ValueError, OSError), "path|could not be written"),
        ({"path": "page.html", "title": 3}, TypeError, "title"),
        ({"path": None}, TypeError, "path"),
        ({"path": "a\x00b"}, ValueError, "path"),
    ],
)
def test_a_report_that_cannot_be_written(
    arguments: dict[str, Any], error: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text").write_text("no folder")
    opt = optimizer()
    before = opt.history
    with pytest.raises(error, match=words):
        opt.report(**arguments)
    assert opt.history == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "text"]


def test_the_walk_reaches_junk_of_every_kind() -> None:
    seen: list[Any] = []

    def takes(value: Any) -> None:
        seen.append(value)

    call: Callable[..., Any] = takes
    for junk in JUNK.values():
        assert Call(call, value=1).with_junk("value", junk) == ("accepted", "")
    assert len(seen) == len(JUNK)
