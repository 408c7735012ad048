"""Experiments: problem x method x seed -> records -> figures, for the paper and for comparisons of any methods."""

from drbo.experiments._methods import METHODS, Method
from drbo.experiments._reproduce import (
    compare,
    corollary4,
    demo,
    dial,
    figure1,
    figure2,
    methods_for,
    problem_row,
    sets,
)
from drbo.experiments._tasks import SETS, SETTINGS, Goal, Task
from drbo.experiments.records import Execution, Outcome, Plan, run
from drbo.experiments.wind_year import EVERY, figure3

__all__ = [
    "EVERY",
    "METHODS",
    "SETS",
    "SETTINGS",
    "Execution",
    "Goal",
    "Method",
    "Outcome",
    "Plan",
    "Task",
    "compare",
    "corollary4",
    "demo",
    "dial",
    "figure1",
    "figure2",
    "figure3",
    "methods_for",
    "problem_row",
    "run",
    "sets",
]
