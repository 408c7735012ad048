"""Tables of docs/methods.md on worst cases to first order in the radius: `python scripts/sensitivity.py`.

f is known here. The radius of each set is the one at which the robust solution loses as much as in the problem's MMD
ball, so that sets can be compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drbo.ambiguity import sensitivity
from drbo.experiments import SETS, Goal
from drbo.problems import Problem, by_name

PROBLEMS = ("benchmark_1", "benchmark_2", "wind", "robos", "newsvendor", "branin_williams", "three_hump_camel")


@dataclass(frozen=True)
class Row:
    """What the approximation makes of one problem and one set.

    Attributes
    ----------
    lost : what the robust solution loses from the reference to the worst case
    lost_to_first_order : the same, by sensitivity times radius
    regret : robust regret of the action that is best to first order
    stochastic : robust regret of the action that is best under the reference
    """

    lost: float
    lost_to_first_order: float
    regret: float
    stochastic: float


def row(problem: Problem, set_name: str) -> Row:
    """Return how far the worst case to first order is off, and what choosing by it costs."""
    aim = Goal.of(problem, set_name)
    f, p = problem.values, problem.reference
    exact = aim.ambiguity.worst_case(f, p, aim.radius).expectation
    losses = sensitivity(aim.ambiguity, f, p) * aim.radius**aim.ambiguity.growth.power
    best, chosen, stochastic = (int(np.argmax(values)) for values in (exact, f @ p - losses, f @ p))
    regret, own = (float(exact[best] - exact[x]) for x in (chosen, stochastic))
    return Row(float(f[best] @ p - exact[best]), float(losses[best]), regret, own)


def table(title: str, problems: Sequence[Problem], cell: Callable[[Row], str]) -> str:
    """Return a Markdown table with a row per set and a column per problem."""
    lines = [f"| {title} | " + " | ".join(f"`{problem.name}`" for problem in problems) + " |"]
    lines.append("|" + "---|" * (len(problems) + 1))
    for name in SETS:
        lines.append(f"| {name} | " + " | ".join(cell(row(problem, name)) for problem in problems) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    problems = [by_name(name) for name in PROBLEMS]
    print(table("loss to first order / exact loss", problems, lambda r: f"{r.lost_to_first_order / r.lost:.2f}"))
    print()
    print(table("robust regret of the choice", problems, lambda r: f"{r.regret:.2g} ({r.stochastic:.2g})"))


if __name__ == "__main__":
    main()
