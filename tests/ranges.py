"""A heating system whose conditions are a range: nature may choose any point of a box of named parameters."""

import math
from typing import Any

import numpy as np
import pandas as pd

import drbo
from drbo import GP, RBF, DataDriven, General, Matern, Optimizer, Product, Setting, Simulator
from drbo.knowledge import Suggestion

ACTIONS = drbo.Box(setpoint=(18.0, 24.0), stages=drbo.Integer(1, 4))
CONTEXTS = drbo.Box(outdoor=(-10.0, 30.0), load=drbo.Log(0.1, 10.0), season=drbo.Categorical("winter", "summer"))
GRID = np.linspace(0.0, 1.0, 21)
FIXED = GP(Product(Matern(0.7), RBF(0.5)), 0.1)
RNG = np.random.default_rng(0)
HISTORY = pd.DataFrame(
    {
        "season": ["winter", "summer"] * 15,
        "outdoor": np.clip(RNG.normal(10.0, 6.0, 30), -10.0, 30.0),
        "load": 10.0 ** RNG.uniform(-0.5, 0.5, 30),
    }
)
SAMPLES = drbo.Samples(HISTORY, within=CONTEXTS, support=32)
SETTINGS: list[Setting] = [
    General(),
    DataDriven(radius=drbo.radius.Decaying(0.5)),
    Simulator(radius=0.2, pick="uncertain"),
    Simulator(radius=0.2, pick="informative"),
]


def heating(action: Any, context: dict[str, Any]) -> float:
    x = action if isinstance(action, dict) else {"setpoint": 18.0 + 6.0 * float(action[0]), "stages": 2}
    comfort = (x["setpoint"] - 21.0 - 0.05 * context["outdoor"]) ** 2
    control = 0.3 * (x["stages"] - 2.0 - math.log10(context["load"])) ** 2
    return float(-comfort - control - 0.5 * (context["season"] == "winter"))


def nature(number: int) -> dict[str, Any]:
    now: dict[str, Any] = HISTORY.iloc[number % 30].to_dict()
    return {**now, "load": 0.9 * now["load"]}  # not one of the samples


def forecast(number: int) -> drbo.Samples:
    return drbo.Samples([[10.0 + number, 1.0, "winter"], [12.0, 0.7, "summer"]], within=CONTEXTS)


def ask(opt: Optimizer, number: int) -> Suggestion:
    return (
        opt.ask(reference=forecast(number), radius=0.2) if isinstance(opt.configuration.setting, General) else opt.ask()
    )


def tell(opt: Optimizer, s: Suggestion, number: int) -> None:
    now = nature(number) if s.context is None else s.context
    opt.tell(s, heating(s.action, now), context=None if s.context is not None else now)


def run(opt: Optimizer, rounds: int, first: int = 0) -> list[Suggestion]:
    suggestions = []
    for number in range(first, first + rounds):
        suggestions.append(ask(opt, number))
        tell(opt, suggestions[-1], number)
    return suggestions
