"""One optimizer of every kind, each with a short history: on a grid, a box, a range, labels and a table."""

import drbo
import heating
import ranges
import robos
from drbo import (
    MMD,
    AmbiguitySet,
    AnyOf,
    Box,
    Categorical,
    DataDriven,
    General,
    Intersection,
    LearnedGP,
    Moments,
    Optimizer,
    Samples,
    Setting,
    Simulator,
    Wasserstein,
)


def on_a_grid(setting: Setting | None = None) -> Optimizer:
    opt = robos.make(setting or General())
    robos.run(opt, 4)
    robos.ask(opt)
    return opt


def corrected() -> Optimizer:
    opt = robos.make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"), surrogate=LearnedGP())
    robos.run(opt, 4)
    opt.retract(opt.results[0])
    opt.amend(opt.results[1], outcome=0.3)
    opt.cancel(opt.ask())
    return opt


def on_a_box() -> Optimizer:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    heating.run(opt, 3)
    opt.ask()
    return opt


def on_a_range() -> Optimizer:
    opt = Optimizer(ranges.GRID, ranges.CONTEXTS, setting=DataDriven(radius=0.2), surrogate=ranges.FIXED)
    ranges.run(opt, 3)
    opt.tell(opt.ask(), failed=True)
    return opt


def with_labels() -> Optimizer:
    opt = Optimizer(
        Box(x=(0, 1), m=Categorical("a", "b")),
        {"young": 3, "old": 2},
        ambiguity=AnyOf([[0.5, 0.5], [0.2, 0.8]], within=MMD()),
        setting=Simulator(radius=0.1, pick="uncertain"),
        surrogate=LearnedGP(),
        baseline={"x": 0.5, "m": "a"},
        explore_budget=3.0,
    )
    opt.tell({"x": 0.5, "m": "a"}, {"young": 1.0, "old": 0.5})
    opt.tell({"x": 0.2, "m": "b"}, 0.4, context="old", stderr=0.1)
    opt.ask()
    return opt


def with_a_table(ambiguity: AmbiguitySet | None = None) -> Optimizer:
    opt = Optimizer(
        Box(x=(0, 1)),
        Samples({"t": [1.0, 2.0, 3.0, 4.0], "d": ["a", "b", "a", "b"]}),
        ambiguity=ambiguity or Intersection(Wasserstein(scale={"t": 1.0, "d": 1.0}), Moments({"t": 1.0})),
        setting=DataDriven(radius=drbo.radius.Calibrated(), window=3),
        surrogate=LearnedGP(),
        maximize=False,
    )
    for i in range(3):
        opt.tell(opt.ask(), float(i), context={"t": 1.0 + i, "d": "a"})
    return opt


MAKERS = (on_a_grid, corrected, on_a_box, on_a_range, with_labels, with_a_table)
