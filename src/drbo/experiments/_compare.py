"""Comparisons of methods on problems: those of drbo, and your own, with paired seeds."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drbo import Policy, validation
from drbo._messages import printable, require
from drbo.experiments._methods import METHODS, Method
from drbo.experiments._tasks import SETTINGS, AskTell, ForeignMethod, Task
from drbo.experiments.records import (
    Execution,
    Output,
    Plan,
    Store,
    Table,
    mean_and_error,
    number,
    per_run,
    required,
    run,
    select,
    stack,
    sweep,
)
from drbo.names import SettingName
from drbo.problems import Problem, by_name
from drbo.validation import FloatArray

__all__ = ["MethodComparison", "compare", "methods_for"]

OwnMethod = str | Method | ForeignMethod | Policy | AskTell | Callable[[Task, int], AskTell]


@dataclass(frozen=True)
class MethodComparison(Output):
    """The result of a comparison.

    Attributes
    ----------
    files : the figure
    rows : a row per problem and method: both regrets with standard errors, wins, and seconds per run
    records : the columns of all rounds of all runs
    """

    records: Table

    def to_frame(self, per_round: bool = False) -> Any:
        """Return the rows, or the records of every round, as a pandas DataFrame."""
        pandas = require("pandas", "frame")
        return pandas.DataFrame(self.records if per_round else self.rows)

    def figure(self) -> Any:
        """Return the figure of both regrets by round, as a matplotlib Figure."""
        required("matplotlib")
        from drbo.experiments import _figures

        return _figures.compare(self.records, list(dict.fromkeys(self.records["problem"].tolist())))

    def to_latex(self, column: str = "regret", digits: int = 3) -> str:
        """Return a LaTeX table, a line per problem and a column per method: mean and standard error over the runs.

        The lowest mean of a line is bold. A mean is underlined if its paired difference from the lowest one is at most
        one standard error of that difference. `column` is "regret", "simple regret" or "constrained regret".
        """
        columns = ("regret", "simple regret", "constrained regret")
        validation.one_of("column", column, *columns)
        if column not in self.records:
            raise ValueError("column must be 'regret' or 'simple regret': these problems and methods have no limits")
        methods = list(dict.fromkeys(self.records["method"].tolist()))
        lines = [f"\\begin{{tabular}}{{l{'r' * len(methods)}}}", "\\hline"]
        lines += [" & ".join(["problem", *map(_escaped, methods)]) + " \\\\", "\\hline"]
        for problem in dict.fromkeys(self.records["problem"].tolist()):
            own = {m: self._totals(problem, m, column) for m in methods}
            cells = _cells(own, digits)
            lines.append(" & ".join([_escaped(problem), *cells]) + " \\\\")
        return "\n".join([*lines, "\\hline", "\\end{tabular}", ""])

    def _totals(self, problem: str, method: str, column: str) -> FloatArray:
        """Return the number of each run: the sum of the regret, or the last one of the recommendation."""
        values = per_run(select(self.records, problem=problem, method=method), column)
        return np.asarray(values.sum(axis=1) if column == "regret" else values[:, -1])


def _cells(totals: Mapping[str, FloatArray], digits: int) -> list[str]:
    means = {method: float(values.mean()) for method, values in totals.items()}
    best = min(means, key=lambda method: means[method])
    cells = []
    for method, values in totals.items():
        _, error = mean_and_error(values)
        difference, spread = mean_and_error(values - totals[best])
        text = f"{means[method]:.{digits}g}"
        if method == best:
            text = f"\\mathbf{{{text}}}"
        elif float(difference) <= float(spread):
            text = f"\\underline{{{text}}}"
        rest = "" if np.isnan(error) else f" \\pm {float(error):.2g}"
        cells.append(f"${text}{rest}$")
    return cells


def _escaped(text: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def methods_for(setting: str) -> list[str]:
    """Return the names of the methods that support a setting."""
    return [name for name, method in METHODS.items() if setting in method.settings]


def compare(
    problems: Problem | str | Sequence[Problem | str],
    methods: Mapping[str, OwnMethod] | Sequence[str] | None = None,
    *,
    setting: str = SettingName.SIMULATOR.value,
    seeds: int = 20,
    rounds: int = 100,
    seed: int = 0,
    ambiguity: str = "mmd",
    out: Path | str = "out",
    workers: int = 0,
    scheduler: str | None = None,
) -> MethodComparison:
    """Run methods on problems in one setting; return their simple and cumulative robust regret, and draw both.

    Every method of a problem is a separate sweep, so a comparison with other methods finds its records again, and an
    interrupted one continues. If a method has a constraint, or a problem limits, all methods are also judged by these.

    Parameters
    ----------
    problems : names of `drbo problems`, or a `drbo.problems.Problem` of your own
    methods : names of methods of drbo; or a mapping from a name to a name, a policy (which replaces that of DRBO), an
        ask-tell object (every run gets a copy), or a function or class that takes the task and a seed and returns one
        (`AskTell`). The default is all methods of drbo for the setting
    setting : who gives reference and radius, and who picks contexts
    seeds : runs per method; run k of every method has the same noise and, if nature draws them, the same contexts
    rounds : rounds per run
    seed : the seed from which those of the runs are made
    ambiguity : the set that all methods are measured by, and that DRBO is robust to
    out : folder for records and the figure. Records of your own methods and problems are found again by their name,
        source code and values; other packages that they use may change without notice
    workers : worker processes (joblib's loky); 0: all cores
    scheduler : address of a Dask scheduler, instead of worker processes
    """
    required("matplotlib", "joblib")
    validation.one_of("setting", setting, *SETTINGS)
    plan = Plan(
        Path(out),
        validation.whole_number("seeds", seeds, least=1),
        rounds,
        seed,
        ambiguity,
        Execution(workers, scheduler),
    )
    chosen = _chosen(methods_for(setting) if methods is None else methods)
    for name, method in chosen.items():
        if setting not in method.settings:
            known = ", ".join(methods_for(setting))
            raise ValueError(f"method {name!r} is not for the {printable(setting)} setting; these are: {known}")
    several = [problems] if isinstance(problems, Problem | str) else list(problems)
    solved = [by_name(one) if isinstance(one, str) else one for one in several]
    for one in solved:
        validation.of_kind("problems", one, Problem, "names, or a drbo.problems.Problem of your own")
    names = [problem.name for problem in solved]
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"problems must have different names, got {names}")
    judge = any(method.constrained for method in chosen.values()) or any(problem.limits for problem in solved)
    tables = []
    for problem in solved:
        task = Task.of(problem, setting, ambiguity)
        own = [_sweep(plan, task, name, method) for name, method in chosen.items()]
        tables += [judged(table, task) for table in own] if judge else own
    records = stack(tables)
    joined = "-".join(names)
    if len(names) > 3:
        joined = f"{len(names)}-problems-{hashlib.sha256(joined.encode()).hexdigest()[:8]}"
    found = MethodComparison([], compare_rows(records), records)
    from drbo.experiments import style

    found.files.extend(style.save(found.figure(), plan.out / plan.named(f"compare-{joined}-{setting}")))
    return found


@dataclass(frozen=True)
class _Always:
    """The policy of a method in every task."""

    policy: Policy

    def __call__(self, task: Task) -> Policy:
        del task
        return self.policy


def _chosen(methods: Mapping[str, OwnMethod] | Sequence[str]) -> dict[str, Method | ForeignMethod]:
    """Return the methods by name; raise on names that cannot be those of files or cells."""
    given = methods if isinstance(methods, Mapping) else {name: name for name in methods}
    if isinstance(methods, str) or not given:
        raise ValueError(f"methods must be a mapping, or a sequence of names such as ['drbo', 'ucb'], got {methods!r}")
    found: dict[str, Method | ForeignMethod] = {}
    for name, method in given.items():
        if isinstance(method, str):
            if method not in METHODS:
                raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
            found[name] = METHODS[method]
            continue
        if not (isinstance(name, str) and re.fullmatch(r"[\w.+:-]+", name)) or name in METHODS:
            raise ValueError(
                f"the name of a method of your own must be letters, digits, _, ., +, : and - only, and none of drbo's, "
                f"got {name!r}"
            )
        made = method() if isinstance(method, type) and issubclass(method, Policy) else method
        if isinstance(made, Method | ForeignMethod):
            found[name] = made
        elif isinstance(made, Policy):
            found[name] = Method(name, name, policy=_Always(made))
        elif callable(made) or (hasattr(made, "ask") and hasattr(made, "tell")):
            found[name] = ForeignMethod(name, name, made)
        else:
            raise TypeError(
                f"method {name!r} must be a name, a policy, an object with ask and tell, or a function that returns "
                f"one, got {made!r}"
            )
    labels = [method.label for method in found.values()]
    if len(set(labels)) < len(labels):
        raise ValueError(f"methods must be different, got {', '.join(labels)}")
    return found


def _sweep(plan: Plan, task: Task, name: str, method: Method | ForeignMethod) -> Table:
    """Return the records of all runs of one method on one task."""
    problem, setting = task.problem, task.setting
    known = METHODS.get(method.name) is method
    argument = method.name if known else method
    jobs = {f"{k}": (*plan.job(problem, setting, argument, k), True) for k in range(plan.runs)}
    description = {
        "problem": problem.name,
        "values": _digest(problem),
        "setting": setting,
        "method": method.name if known else f"{name} {_source(method)}",
        "radius": task.aim.radius,
        "data-driven radius": repr(task.rule),
        **plan.description(),
    }
    if method.constrained:
        description["constraint"] = str(task.constraint)
    shown = re.sub(r"[^\w.+-]", "_", method.name if known else name)
    store = Store(plan.out, plan.named(f"compare-{problem.name}-{setting}-{shown}"), description)
    return sweep(f"{problem.name}: {method.label}", store, run, jobs, plan.execution)


def _digest(problem: Problem) -> str:
    """Return a digest of the numbers of a problem."""
    own = [problem.values, problem.reference, problem.true_distribution, problem.actions, problem.contexts]
    own += [*problem.limit_values.values(), np.array([problem.noise, problem.radius])]
    found = hashlib.sha256(repr((problem.gp_kernel, {k: v[1] for k, v in problem.limits.items()})).encode())
    for array in own:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:12]


def _source(method: Method | ForeignMethod) -> str:
    """Return a digest of the source of a user's method, and of its fields if it is a dataclass."""
    made = method.made if isinstance(method, ForeignMethod) else getattr(method.policy, "policy", method.policy)
    written = made if inspect.isfunction(made) or inspect.isclass(made) else type(made)
    try:
        text = inspect.getsource(written)
    except (OSError, TypeError):
        text = repr(written)
    fields = repr(made) if is_dataclass(made) and not isinstance(made, type) else ""
    return hashlib.sha256((text + fields).encode()).hexdigest()[:12]


def judged(table: Table, task: Task) -> Table:
    """Return the records of a method, extended by the constraint of the task.

    `infeasible` : 1 if the recommended action violates the constraint, otherwise 0
    `constrained regret` : the worst case of the best feasible action, less that of the recommended one
    `open`, `false labels` : the numbers of actions without a label, and with a false one; nan if not recorded
    """
    own, chosen = task.problem, table["recommended"]
    robust = task.aim.worst_cases(own, own.values)
    absent = np.full(len(chosen), np.nan)
    inside, outside, wrong = (table.get(name, absent) for name in ("in", "out", "false labels"))
    rest = {name: column for name, column in table.items() if name not in ("in", "out", "false labels")}
    return rest | {
        "infeasible": (~task.feasible[chosen]).astype(int),
        "constrained regret": robust[task.constrained_solution(own.values)] - robust[chosen],
        "open": len(own.actions) - inside - outside,
        "false labels": wrong,
    }


def compare_rows(records: Table) -> list[dict[str, Any]]:
    """Return a row per problem and method: both regrets with standard errors, and the seconds per run.

    `wins` counts the runs in which no other method had a smaller cumulative regret; the runs are paired. For `judged`
    records, the row also summarises the constraint.
    """
    rows = []
    for problem in dict.fromkeys(records["problem"].tolist()):
        own = select(records, problem=problem)
        totals = {
            method: per_run(select(own, method=method), "regret").sum(axis=1)
            for method in dict.fromkeys(own["method"].tolist())
        }
        least = np.min(list(totals.values()), axis=0)
        for method, total in totals.items():
            table = select(own, method=method)
            regret, error = mean_and_error(total)
            simple, simple_error = mean_and_error(per_run(table, "simple regret")[:, -1])
            rows.append(
                {
                    "problem": problem,
                    "setting": str(table["setting"][0]),
                    "method": method,
                    "runs": len(total),
                    "rounds": int(table["round"].max()),
                    "regret": float(regret),
                    "standard error": number(error),
                    "wins": int((total <= least).sum()),
                    "simple regret": float(simple),
                    "its standard error": number(simple_error),
                    "seconds per run": float(per_run(table, "seconds").sum(axis=1).mean()),
                    **(_constrained(table) if "infeasible" in table else {}),
                }
            )
    return rows


def _constrained(table: Table) -> dict[str, Any]:
    """Return a summary of the last round of each run under the constraint.

    The constrained regret is the mean over the runs that recommend a feasible action; the other runs are counted. Open
    actions are averaged. False labels are the largest number in any run.
    """
    missed = per_run(table, "infeasible")[:, -1] > 0.0
    lost = per_run(table, "constrained regret")[~missed, -1]
    mean, error = mean_and_error(lost) if len(lost) else (np.array(np.nan), np.array(np.nan))
    return {
        "constrained regret": number(mean),
        "standard error of constrained regret": number(error),
        "infeasible runs": int(missed.sum()),
        "open actions": number(per_run(table, "open")[:, -1].mean()),
        "false labels": number(per_run(table, "false labels")[:, -1].max()),
    }
