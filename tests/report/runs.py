"""Five kinds of run that a report must show."""

from collections.abc import Callable
from typing import Any

import numpy as np

from drbo import (
    GP,
    MMD,
    RBF,
    Box,
    Categorical,
    DataDriven,
    General,
    Integer,
    Log,
    Optimizer,
    Product,
    Samples,
    Simulator,
)  # fmt: skip


def grid() -> Optimizer:
    """A fixed model on a grid, with a reference and a radius of its own in every round."""
    contexts = np.linspace(0.0, 1.0, 9)
    surrogate = GP(Product(RBF(0.3), RBF(0.4)), 0.1)
    opt = Optimizer(
        np.linspace(0.0, 1.0, 11), contexts, ambiguity=MMD(kernel=RBF(0.3)), setting=General(), surrogate=surrogate
    )
    rng = np.random.default_rng(0)
    for _ in range(10):
        s = opt.ask(reference=np.arange(1.0, 10.0) / 45.0, radius=0.2)
        j = int(rng.integers(9))
        opt.tell(s, float(np.sin(4.0 * s.action[0]) - contexts[j] * s.action[0]), context_index=j)
    return opt


def box() -> Optimizer:
    """Four kinds of parameter and two conditions, minimised, with a baseline, a failure and pending evaluations."""
    rng = np.random.default_rng(1)
    past = {"outdoor": rng.normal(5.0, 6.0, 40), "load": rng.uniform(0.2, 0.8, 40)}
    opt = Optimizer(
        Box(setpoint=(18.0, 24.0), gain=Log(1e-3, 1.0), stages=Integer(1, 4), mode=Categorical("eco", "boost")),
        Samples(past),
        setting=Simulator(radius=0.1, pick="uncertain"),
        maximize=False,
        baseline={"setpoint": 21.0, "gain": 0.05, "stages": 2, "mode": "eco"},
    )
    for i in range(16):
        action: dict[str, Any] = {
            "setpoint": float(rng.uniform(18.0, 24.0)),
            "gain": float(10.0 ** rng.uniform(-3.0, 0.0)),
            "stages": int(rng.integers(1, 5)),
            "mode": ["eco", "boost"][i % 2],
        }
        context = {"outdoor": float(rng.normal(5.0, 6.0)), "load": float(rng.uniform(0.2, 0.8))}
        cost = (action["setpoint"] - 21.0) ** 2 + 0.1 * action["stages"] * (10.0 - context["outdoor"])
        opt.tell(action, cost + 3.0 * (i % 2) * context["load"], context=context)
    s = opt.ask()
    opt.tell(s, failed=True)
    opt.ask(2)
    return opt


def labels() -> Optimizer:
    """Groups of patients as contexts."""
    opt = Optimizer(
        Box(dose=(0.0, 10.0)), {"young": 50, "middle": 30, "old": 20}, setting=Simulator(radius=0.2, pick="uncertain")
    )
    for i in range(12):
        dose, group = 10.0 * i / 11.0, ["young", "middle", "old"][i % 3]
        best = {"young": 7.0, "middle": 5.0, "old": 3.0}[group]
        opt.tell({"dose": dose}, -((dose - best) ** 2), context=group)
    return opt


def range_() -> Optimizer:
    """A condition with a range, of which the samples show a part; nature picks it."""
    rng = np.random.default_rng(2)
    opt = Optimizer(
        Box(order=(40.0, 200.0)),
        Samples({"demand": rng.normal(100.0, 15.0, 30)}, within=Box(demand=(0.0, 250.0))),
        setting=DataDriven(radius=0.15),
        baseline={"order": 90.0},
    )
    for i in range(12):
        order, demand = 60.0 + 10.0 * i, float(rng.normal(100.0, 15.0))
        opt.tell({"order": order}, 5.0 * min(order, demand) - 3.0 * order, context={"demand": demand})
    return opt


def hostile() -> Optimizer:
    """Names and labels that are markup, or much too long."""
    labels = ("<img src=x onerror=alert(2)>", f"a label of one {'w' * 150}")
    opt = Optimizer(
        Box({"<script>alert(1)</script>": (0.0, 1.0), "</script><b>": Categorical(*labels)}),
        ["<svg onload=alert(3)>", "=1+1", '"; alert(4); "'],
        setting=Simulator([1, 1, 1], radius=0.2, pick="uncertain"),
        outcome="<b>cost</b>",
        unit="<i>&",
    )
    for i in range(9):
        action = {"<script>alert(1)</script>": i / 8, "</script><b>": labels[i % 2]}
        opt.tell(action, float(i % 4), context_index=i % 3)
    return opt


RUNS: dict[str, Callable[[], Optimizer]] = {
    "grid": grid, "box": box, "labels": labels, "range": range_, "hostile": hostile,
}  # fmt: skip
