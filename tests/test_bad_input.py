"""Every argument of every public function refuses junk, by its name, and changes nothing (REVIEW F10)."""

import contextlib
import inspect
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bad_input import JUNK, C, Call, P, X, calls, faults, optimizer
from drbo.experiments import Execution, Plan
from drbo.optimizer.question import Question

MADE_BY_DRBO = {
    "Backtest", "Bound", "Choice", "Classification", "Comparison", "Explanation", "ExactPosterior", "LeaveOneOut",
    "MaximumInformationGain", "Narrowing", "Prediction", "Probability", "RadiusExplanation", "RadiusProfile",
    "RadiusSensitivity", "Recommendation", "RegretBound", "Result", "Round", "Suggestion",
    "TargetRecommendation", "ValueAtRisk", "Watch", "WorstCase",
}  # fmt: skip
"""Classes that a user is given and does not make."""
BY_POSITION = {"AtMostActive", "Box", "Categorical", "Ordinal", "Perturbation", "Intersection", "Total"}
"""Their arguments are names and values of the user's; what they refuse is tested with each."""


def test_junk_is_refused_by_the_name_of_its_argument() -> None:
    assert faults() == []


def test_no_public_function_is_left_out() -> None:
    """A new function, class or method of the optimizer without a call fails here; the walk finds new arguments."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        every = calls().values()
    there = {call.function if isinstance(call.function, str) else call.function.__qualname__ for call in every}
    wanted = set()
    for name in drbo.__all__:
        thing = getattr(drbo, name)
        if name in MADE_BY_DRBO | BY_POSITION or inspect.ismodule(thing) or not callable(thing):
            continue
        if inspect.isclass(thing) and (
            inspect.isabstract(thing) or issubclass(thing, Exception) or not _arguments(thing)
        ):
            continue
        wanted.add(thing.__qualname__)
    wanted.discard("encode")  # to_json, which takes anything that can be saved
    methods = inspect.getmembers(drbo.Optimizer, inspect.isfunction)
    wanted |= {name for name, method in methods if not name.startswith("_") and _arguments(method)}
    methods = inspect.getmembers(Question, inspect.isfunction)
    wanted |= {f"under.{name}" for name, method in methods if not name.startswith("_") and _arguments(method)}
    assert wanted - there == set()


def _arguments(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_walk_would_notice() -> None:
    def careless(count: Any, share: Any = 0.5) -> Any:
        return range(count), share

    call = Call(careless, count=1)
    assert call.arguments == ("count", "share")
    assert call.with_junk("count", JUNK["text"])[0] == "TypeError"
    assert "count" not in call.with_junk("count", JUNK["text"])[1]
    assert call.with_junk("share", JUNK["odd"])[0] == "accepted"


ROWS: list[tuple[Any, type[Exception], str]] = [
    (lambda: drbo.radius.Bootstrap(resamples=1.5), TypeError, "resamples"),  # type: ignore[arg-type]
    (lambda: drbo.radius.Bootstrap(resamples=10**12), ValueError, "resamples must be at most"),
    (lambda: drbo.radius.Calibrated(resamples=10**12), ValueError, "resamples must be at most"),
    (lambda: Plan("cmp"), TypeError, "out must be a pathlib.Path"),  # type: ignore[arg-type]
    (lambda: Plan(Path("cmp"), runs=0), ValueError, "runs must be at least 1"),
    (lambda: Plan(Path("cmp"), rounds="many"), TypeError, "rounds"),  # type: ignore[arg-type]
    (lambda: Plan(Path("cmp"), seed=-1), ValueError, "seed"),
    (lambda: Plan(Path("cmp"), ambiguity="nmd"), ValueError, 'ambiguity must be "mmd"'),
    (lambda: Plan(Path("cmp"), execution=2), TypeError, "execution"),  # type: ignore[arg-type]
    (lambda: Execution(workers=-1), ValueError, "workers"),
    (lambda: Execution(scheduler=8786), TypeError, "scheduler"),  # type: ignore[arg-type]
    (lambda: drbo.radius.Bootstrap(seed=-1), ValueError, "seed"),
    (lambda: drbo.radius.Calibrated(window=2.5), TypeError, "window"),  # type: ignore[arg-type]
    (lambda: drbo.radius.Calibrated(horizon=float("nan")), TypeError, "horizon"),  # type: ignore[arg-type]
    (lambda: drbo.models.information_gain(-5 * np.eye(3), 1.0), ValueError, "gram"),
    (lambda: drbo.Categorical(float("nan"), 1.0), ValueError, "choices"),
    (lambda: drbo.Box(x=(-1.7e308, 1.7e308)), ValueError, "high"),
    (lambda: drbo.MMD.of_features(np.empty((0, 3))), ValueError, "features"),
    (lambda: drbo.GP(drbo.Product(drbo.RBF(1.0), drbo.RBF(1.0)), noise=1e200), ValueError, "noise"),
    (lambda: drbo.Samples({}), ValueError, "data must have at least one column"),
    (lambda: drbo.Integer(0, 10**400), ValueError, "high"),
    (lambda: optimizer(beta=1e308), ValueError, "beta"),
    (lambda: optimizer().tell([0.5, 0.5], 1.0, context=C[0]), ValueError, "suggestion|action"),
    (lambda: optimizer(drbo.DataDriven(radius=0.1)).tell(X[0], 1.0, context=[0.5, 0.5]), ValueError, "context"),
    (lambda: optimizer(drbo.DataDriven(radius=0.1)).under().backtest(radii=[], window=1), ValueError, "radii"),
    (lambda: drbo.backtest(np.eye(4), drbo.MMD(C), [0, 1, 2, 3], [], 1), ValueError, "radii"),
    # F1: sizes that do not fit aborted the interpreter
    (lambda: drbo.backtest(np.eye(4), drbo.MMD(np.linspace(0, 1, 2000)), [0, 1, 2], [0.1], 1), ValueError, "ambiguity"),
    (lambda: drbo.MMD(np.linspace(0, 1, 5)).worst_case(np.eye(4), P, 0.1), ValueError, "values|reference"),
    # what the CSV reader took is in test_bad_integrations.py
]


@pytest.mark.parametrize(("call", "error", "words"), ROWS)
def test_what_version_0_1_took(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
