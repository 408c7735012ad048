"""The wind year: one decision per hour, found by DRBO, UCB and StableOpt in a simulator, applied to the real wind."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo import AmbiguitySet, Optimism, Optimizer, Simulator, Uncertain, backtest
from drbo._messages import printable
from drbo.analysis import Backtest
from drbo.experiments._methods import OF_DRBO, OF_THE_PAPER
from drbo.experiments._tasks import Goal
from drbo.experiments.records import (
    RECORDS,
    Output,
    Plan,
    Store,
    Table,
    generator,
    mean_and_error,
    number,
    per_run,
    required,
    select,
    sweep,
)
from drbo.names import MethodName
from drbo.problems import WINDOW_HOURS, Problem, WindSeries, nearest_context, revenue, wind
from drbo.radius import empirical
from drbo.validation import FloatArray

__all__ = ["EVERY", "figure3"]

MMD_RADII = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5)
NEIGHBOURHOOD_RADII = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)


@dataclass(frozen=True, eq=False)
class WindYear:
    """A series on the problem's grid: the radius is learned from its first year, results are reported for its second.

    The power is divided by the maximum of the whole series, which represents the capacity of the farm.
    """

    series: WindSeries

    def __post_init__(self) -> None:
        if len(self.series.years) < 2 or len(self.series) < 4 * WINDOW_HOURS:
            raise ValueError(f"{printable(self.series.name)} must cover two calendar years, got {self.series.years}")

    @property
    def power(self) -> FloatArray:
        """The power of every hour as a share of the maximum, (n,)."""
        return self.series.normalised()

    def hours(self, year: int) -> NDArray[np.intp]:
        """Return the indices of the hours with a full window, in the first (0) or the second (1) half."""
        years = self.series.times.astype("datetime64[Y]").astype(int) + 1970
        largest = sorted(sorted(set(years.tolist()), key=lambda y: (-(years == y).sum(), y))[:2])
        inside = np.flatnonzero(years == largest[year])
        return inside[inside >= WINDOW_HOURS]


def choose_radius(power: FloatArray, hours: NDArray[np.intp], method_name: str) -> Backtest:
    """Return the revenue of each radius with an exact solve of every hour of the first year."""
    problem = wind()
    ambiguity, _ = OF_DRBO[method_name].robust_to(problem, Goal.of(problem, "mmd"))
    past = power[hours[0] - WINDOW_HOURS : hours[-1] + 1]
    earned = revenue(problem.actions[:, 0][None, :], past[:, None])
    radii = MMD_RADII if method_name == MethodName.DRBO else NEIGHBOURHOOD_RADII
    seen = nearest_context(past, problem.contexts)
    return backtest(problem.values, ambiguity, seen, radii, WINDOW_HOURS, earned)


def backtest_table(power: FloatArray, hours: NDArray[np.intp], method_name: str, year: str) -> Table:
    """Return a row per radius: its revenue with an exact solve of every hour."""
    result = choose_radius(power, hours, method_name)
    k = len(result.radii)
    return {
        "method": np.full(k, OF_DRBO[method_name].label),
        "year": np.full(k, year),
        "radius": result.radii,
        "revenue": result.revenue,
    }


def decide(
    power: FloatArray, hours: NDArray[np.intp], radii: dict[str, float], rounds: int, seed: int, run: int = 0
) -> Table:
    """Return a row per hour and method: the commitment, its revenue in that hour, and its robust regret.

    Each method solves every hour separately in the simulator setting and deploys the recommendation of eq. (10). Two
    baselines are added: no commitment, and the exact solution of DRBO's objective. The regret is in DRBO's own ball.
    The noise of a run has the seed seed + run, the same for every method.
    """
    problem = wind()
    f, actions = problem.values, problem.actions[:, 0]
    contexts = nearest_context(power, problem.contexts)
    methods = [OF_DRBO[name] for name in OF_THE_PAPER]
    sets = {method.label: method.robust_to(problem, Goal.of(problem, "mmd"))[0] for method in methods}
    rows: list[tuple[str, int, int, int, float, float]] = []
    for hour in hours.tolist():
        reference = empirical(contexts[hour - WINDOW_HOURS : hour], len(problem.contexts))
        scores = problem.ambiguity.worst_case(f, reference, radii["DRBO"]).expectation
        chosen = {"exact DRO": int(np.argmax(scores)), "no commitment": 0}
        for name, ambiguity in sets.items():
            setting = Simulator(reference, radii.get(name, 0.0))
            chosen[name] = _solve_hour(problem, ambiguity, setting, rounds, generator(seed + run, hour))
        for name, x in chosen.items():
            earned = float(revenue(actions[x], power[hour]))
            rows.append((name, run, hour, x, earned, float(scores.max() - scores[x])))
    columns = zip(*rows, strict=True)
    names = ("method", "run", "hour", "action", "revenue", "regret")
    return dict(zip(names, map(np.array, columns), strict=True))


def _solve_hour(
    problem: Problem, ambiguity: AmbiguitySet, setting: Simulator, rounds: int, rng: np.random.Generator
) -> int:
    """Return the action recommended by the optimization of one hour."""
    opt = Optimizer(
        problem.actions,
        problem.contexts,
        ambiguity=ambiguity,
        setting=setting,
        surrogate=problem.surrogate,
        beta=2.0,
        policy=Optimism(Uncertain()),
    )
    for _ in range(rounds):
        s = opt.ask()
        assert s.context_index is not None
        opt.tell(s, float(problem.values[s.action_index, s.context_index]) + problem.noise * rng.normal())
    return int(opt.recommend_iterate().action_index)


EVERY = 11
"""Figure 3 solves every 11th hour of the year: 11 and 24 are coprime, so all hours of the day occur."""


def figure3(plan: Plan, series: WindSeries, hours: int | None = None, every: int = EVERY) -> Output:
    """Choose radii on the first year of wind, decide every N-th hour of the second, and draw revenue and regret.

    Each of these hours is solved once per run, with different noise, and represents N hours of the year in all totals.
    `hours` limits the second year, and the backtest, to their first hours.
    """
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    year = WindYear(series)
    first, second = year.hours(0)[:hours], year.hours(1)[:hours]
    names = [str(series.times[h[len(h) // 2]].astype("datetime64[Y]")) for h in (first, second)]
    content = hashlib.sha256(series.power.tobytes() + series.times.tobytes()).hexdigest()
    hours_used = [int(first[0]), len(first), int(second[0]), len(second)]
    common = {"series": series.name, "content": content, "hours": hours_used, "records": RECORDS}
    tests = {
        f"{OF_DRBO[method].label}-{name}": (year.power, h, method, name)
        for method in (MethodName.DRBO, MethodName.STABLEOPT)
        for name, h in zip(names, (first, second), strict=True)
    }
    store = Store(plan.out, "figure3_backtest", common)
    backtests = sweep("wind: radii", store, backtest_table, tests, plan.execution)
    radii = {}
    for method in ("DRBO", "StableOpt"):
        # Files hold the year as a number.
        own = select(backtests, method=method, year=backtests["year"].dtype.type(names[0]))
        radii[method] = float(own["radius"][np.argmax(own["revenue"])])
    solved = second[min(every // 2, len(second) - 1) :: every]
    parts = np.array_split(solved, max(len(solved) // 48, 1))
    jobs = {
        f"run-{run}-hours-{part[0]}": (year.power, part, radii, plan.rounds, plan.seed, run)
        for run in range(plan.runs)
        for part in parts
    }
    settings = {**common, "radii": radii, "rounds": plan.rounds, "seed": plan.seed, "every": every, "runs": plan.runs}
    records = sweep("wind: hours", Store(plan.out, "figure3", settings), decide, jobs, plan.execution)
    title = f"{series.name}, {names[1]}"
    figure = _figures.figure3(records, backtests, radii, title, series.times[0], plan.seed, every)
    files = style.save(figure, plan.out / "figure3")
    rows = []
    for method in ("DRBO", "UCB", "StableOpt", "no commitment", "exact DRO"):
        own = select(records, method=method)
        earned, its_error = mean_and_error(every * per_run(own, "revenue").sum(axis=1))
        lost, error = mean_and_error(every * per_run(own, "regret").sum(axis=1))
        rows.append(
            {
                "method": method,
                "radius": radii.get("DRBO" if method == "exact DRO" else method),
                "hours": len(solved),
                "runs": plan.runs,
                "revenue": float(earned),
                "its standard error": number(its_error),
                "robust regret": float(lost),
                "standard error": number(error),
                "mean commitment": float(own["action"].mean() / 49.0),
            }
        )
    return Output([plan.out / "figure3.csv", plan.out / "figure3_backtest.csv", *files], rows)
