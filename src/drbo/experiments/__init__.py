"""The paper's experiments: problem x method x seed -> records -> figures."""

from drbo.experiments._methods import METHODS, SETS
from drbo.experiments._reproduce import Outcome, Plan, demo, dial, figure1, figure2, figure3, problem_row, sets
from drbo.experiments._runs import SETTINGS, run
from drbo.experiments._sweep import Execution

__all__ = [
    "METHODS",
    "SETS",
    "SETTINGS",
    "Execution",
    "Outcome",
    "Plan",
    "demo",
    "dial",
    "figure1",
    "figure2",
    "figure3",
    "problem_row",
    "run",
    "sets",
]
