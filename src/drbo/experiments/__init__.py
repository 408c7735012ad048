"""The paper's experiments: problem x method x seed -> records -> figures."""

from drbo.experiments._methods import DRBO, METHODS, STABLEOPT, UCB, Method
from drbo.experiments._reproduce import Outcome, Plan, demo, dial, figure1, figure2, figure3, problem_row
from drbo.experiments._runs import SETTINGS, run
from drbo.experiments._sweep import Execution

__all__ = [
    "DRBO",
    "METHODS",
    "SETTINGS",
    "STABLEOPT",
    "UCB",
    "Execution",
    "Method",
    "Outcome",
    "Plan",
    "demo",
    "dial",
    "figure1",
    "figure2",
    "figure3",
    "problem_row",
    "run",
]
