"""A heating system without a grid, for tests of what goes beyond grids: spaces, samples, settings, saving."""

import math
from typing import Any

import numpy as np
import pandas as pd

import drbo
from drbo import GP, RBF, DataDriven, General, Matern, Optimizer, Product, Setting, Simulator
from drbo.knowledge import Suggestion

BOX = drbo.Box(
    setpoint=(18.0, 24.0), gain=drbo.Log(1e-3, 1.0), stages=drbo.Integer(1, 4), mode=drbo.Categorical("eco", "boost")
)

RNG = np.random.default_rng(0)

HISTORY = pd.DataFrame(
    {
        "outdoor": 5 + 8 * np.sin(np.arange(80) / 12) + RNG.normal(size=80),
        "load": 0.5 + 0.3 * np.cos(np.arange(80) / 7) + 0.05 * RNG.normal(size=80),
    }
)

FIXED = GP(Product(Matern(1.0), RBF(0.5)), 0.1)

SETTINGS: list[Setting] = [
    General(),
    DataDriven(radius=0.2),
    Simulator(radius=0.2, pick="uncertain"),
    Simulator(radius=0.2, pick="informative"),
]


def heating(action: dict[str, Any], context: dict[str, Any]) -> float:
    gain = (math.log10(action["gain"]) + 1.5) ** 2 * (1.0 if action["mode"] == "eco" else 0.5)
    setpoint = (action["setpoint"] - 21 - 0.05 * context["outdoor"]) ** 2
    return float(-setpoint - 2 * gain - 0.3 * (action["stages"] - 2 - 2 * context["load"]) ** 2)


def make(setting: Setting, **more: Any) -> Optimizer:
    arguments: dict[str, Any] = {"surrogate": FIXED, **more}
    return Optimizer(BOX, drbo.Samples(HISTORY, support=16), setting=setting, **arguments)


def ask(opt: Optimizer) -> Suggestion:
    return opt.ask(radius=0.2) if isinstance(opt.configuration.setting, General) else opt.ask()


def tell(opt: Optimizer, s: Suggestion, number: int) -> None:
    if s.context is None:
        now = HISTORY.iloc[number % 80].to_dict()
        now["load"] += 0.01  # not one of the samples
        opt.tell(s, heating(s.action, now), context=now)
    else:
        opt.tell(s, heating(s.action, s.context))


def run(opt: Optimizer, rounds: int) -> list[Suggestion]:
    suggestions = []
    for number in range(rounds):
        suggestions.append(ask(opt))
        tell(opt, suggestions[-1], number)
    return suggestions
