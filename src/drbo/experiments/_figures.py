"""The figures of the paper, and the radius dial; each function draws from records and returns a figure."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drbo.analysis.profile import RobustnessProfile
from drbo.experiments._methods import Goal
from drbo.experiments._runs import SETTINGS
from drbo.experiments._store import Table, select
from drbo.experiments._style import COLOURS, MARKERS, REFERENCE, STYLE, TRUTH, label_ends, new_figure
from drbo.problems import Problem
from drbo.validation import FloatArray

TITLES = {"benchmark_1": "Benchmark 1", "benchmark_2": "Benchmark 2"}


def figure1(problems: list[Problem]) -> Figure:
    """Return contours of the benchmark functions with both distributions and the solutions."""
    with mpl.rc_context(STYLE):
        figure = new_figure(9.0, 3.9)
        grid = figure.add_gridspec(1, 2 * len(problems), width_ratios=[4, 1] * len(problems))
        for i, problem in enumerate(problems):
            main = figure.add_subplot(grid[2 * i])
            _contour_panel(figure, main, problem)
            main.set_ylabel("context c" if i == 0 else "")
            _density_panel(figure.add_subplot(grid[2 * i + 1], sharey=main), problem)
    return figure


def demo(problem: Problem, records: Table) -> Figure:
    """Return the problem with its solutions beside the robust regret of the methods that look for them."""
    with mpl.rc_context(STYLE):
        figure = new_figure(9.5, 3.7)
        main, side, regret = figure.subplots(1, 3, width_ratios=[4, 1, 4])
        side.sharey(main)
        _contour_panel(figure, main, problem)
        _density_panel(side, problem)
        _regret_panel(regret, records)
        regret.set(xlabel="round", ylabel="cumulative robust regret", title="Simulator setting")
    return figure


def _contour_panel(figure: Figure, panel: Axes, problem: Problem) -> None:
    x, c = problem.actions[:, 0], problem.contexts[:, 0]
    contours = panel.contourf(x, c, problem.values.T, levels=14, cmap="Greys", alpha=0.85)
    bar = figure.colorbar(contours, ax=panel, location="bottom", aspect=40, pad=0.02)
    bar.set_label("reward f(x, c)", fontsize=8)
    bar.set_ticks(list(np.arange(0.0, 1.01, 0.25)))
    panel.grid(False)
    panel.set(xlabel="action x", ylabel="context c", ylim=(0, 1), title=TITLES.get(problem.name, problem.name))
    mean = float(problem.reference @ c)
    optima = {
        "UCB": (problem.stochastic_optimum, "stochastic"),
        "DRBO": (problem.robust_optimum, "robust"),
        "StableOpt": (problem.worst_case_optimum, "worst case"),
    }
    together = len({optimum.action_index for optimum, _ in optima.values()}) == 1
    for name, (optimum, label) in optima.items():
        at = float(optimum.action[0])
        size = 190 if name == "DRBO" else 60
        panel.scatter(at, mean, s=size, marker=MARKERS[name], color=COLOURS[name], edgecolor="white", zorder=3)
        if not together or name == "DRBO":
            panel.axvline(at, color=COLOURS[name], linewidth=1.0, linestyle=":")
            panel.annotate(
                "all three" if together else label, (at, 0.93), color="white", ha="center", fontsize=8,
                bbox={"boxstyle": "round,pad=0.2", "color": COLOURS[name], "alpha": 0.95},
            )  # fmt: skip


def _density_panel(panel: Axes, problem: Problem) -> None:
    c = problem.contexts[:, 0]
    for density, colour, label, offset in (
        (problem.reference, REFERENCE, "reference", 4),
        (problem.true_distribution, TRUTH, "true", -10),
    ):
        panel.fill_betweenx(c, 0, density, color=colour, alpha=0.45, linewidth=0)
        panel.plot(density, c, color=colour)
        peak = int(np.argmax(density))
        panel.annotate(
            label, (density[peak], c[peak]), xytext=(-2, offset), textcoords="offset points",
            fontsize=7.5, color="black", ha="right",
        )  # fmt: skip
    panel.set(xticks=[], xlabel="density")
    panel.tick_params(labelleft=False)
    panel.spines["bottom"].set_visible(False)


def figure2(records: Table, problems: list[str]) -> Figure:
    """Return cumulative robust regret, mean and standard error over the runs: a row a benchmark, a column a setting."""
    with mpl.rc_context(STYLE):
        figure = new_figure(10.0, 2.9 * len(problems))
        axes = figure.subplots(len(problems), len(SETTINGS), squeeze=False, sharex=True)
        for row, problem in enumerate(problems):
            for column, setting in enumerate(SETTINGS):
                panel = axes[row, column]
                panel.set_title(f"{TITLES.get(problem, problem)}, {setting}")
                _regret_panel(panel, select(records, problem=problem, setting=setting))
                if column == 0:
                    panel.set_ylabel("cumulative robust regret")
                if row == len(problems) - 1:
                    panel.set_xlabel("round")
    return figure


def _regret_panel(panel: Axes, records: Table) -> None:
    ends = {}
    for method in ("DRBO", "UCB", "StableOpt"):
        own = select(records, method=method)
        runs = len(np.unique(own["run"]))
        if runs == 0:
            continue
        cumulative = own["regret"].reshape(runs, -1).cumsum(axis=1)
        rounds = own["round"].reshape(runs, -1)[0]
        mean = cumulative.mean(axis=0)
        error = cumulative.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros_like(mean)
        panel.plot(rounds, mean, color=COLOURS[method])
        panel.fill_between(rounds, mean - error, mean + error, color=COLOURS[method], alpha=0.25, linewidth=0)
        ends[method] = (float(rounds[-1]), float(mean[-1]))
    panel.set_ylim(bottom=0)
    panel.set_xlim(left=0, right=max((x for x, _ in ends.values()), default=1.0))
    panel.margins(x=0)
    label_ends(panel, ends, gap=0.085)


def figure3(hours: Table, backtests: Table, radii: dict[str, float], title: str, start: np.datetime64) -> Figure:
    """Return the wind year: cumulative revenue, cumulative robust regret, and revenue against the radius."""
    with mpl.rc_context(STYLE):
        figure = new_figure(12.5, 3.7)
        revenue, regret, dial = figure.subplots(1, 3, width_ratios=[1.1, 1.1, 1])
        for panel, column, label in (
            (revenue, "revenue", "cumulative revenue (share of capacity x hours)"),
            (regret, "regret", "cumulative robust regret"),
        ):
            ends = {}
            for method in ("exact DRO", "DRBO", "UCB", "StableOpt", "no commitment"):
                own = select(hours, method=method)
                if column == "regret" and method == "exact DRO":
                    continue  # zero by definition
                days = start + own["hour"].astype("timedelta64[h]")
                total = own[column].cumsum()
                dashed = "--" if method == "exact DRO" else "-"
                panel.plot(days, total, color=COLOURS[method], linestyle=dashed, linewidth=1.5)
                ends[method] = (dates.date2num(days[-1]), float(total[-1]))
            panel.set_ylabel(label)
            panel.xaxis.set_major_locator(dates.MonthLocator(bymonth=(1, 4, 7, 10)))
            panel.xaxis.set_major_formatter(dates.DateFormatter("%b"))
            panel.margins(x=0)
            label_ends(panel, ends, gap=0.065)
        revenue.set_title(title)
        regret.set_title("robust regret of the same decisions")
        years = np.unique(backtests["year"])
        best = float(backtests["revenue"].max())
        for method, unit, at in (("DRBO", "MMD", 0.1), ("StableOpt", "Euclidean", 0.41)):
            for year, style in zip(years, ("--", "-"), strict=False):
                own = select(backtests, method=method, year=year)
                dial.plot(own["radius"], own["revenue"], style, color=COLOURS[method], marker=".", linewidth=1.3)
            dial.axvline(radii[method], ymax=0.8, color=COLOURS[method], linewidth=1.0, linestyle=":")
            height = 1.04 * float(select(backtests, method=method)["revenue"].max())
            dial.annotate(f"{method} ({unit})", (at, height), color=COLOURS[method], ha="center", fontsize=8.5)
        # Below zero StableOpt's radius is reckless, and of no interest.
        dial.set(ylim=(0, 1.35 * best), xlim=(0, 0.55), title="choosing the radius", xlabel="radius")
        dial.set_ylabel("revenue of a year, solved exactly")
        note = f"dashed: {years[0]}, where it is chosen (dotted line)\nsolid: {years[-1]}"
        dial.text(0.5, 0.99, note, transform=dial.transAxes, ha="center", va="top", fontsize=7.5)
    return figure


def dial(problem: Problem, profile: RobustnessProfile, goal: Goal) -> Figure:
    """Return how action, value and worst distribution move from stochastic to worst case as the radius grows."""
    with mpl.rc_context(STYLE):
        figure = new_figure(11.0, 3.5)
        action, value, spread = figure.subplots(1, 3, width_ratios=[1, 1.15, 1.15])
        radius = profile.radius
        label_x = f"radius ({type(goal.ambiguity).__name__})"
        chosen = problem.actions[profile.action_index, 0]
        action.plot(radius, chosen, color=COLOURS["DRBO"], drawstyle="steps-post")
        for optimum, name, label in (
            (problem.stochastic_optimum, "UCB", "stochastic"),
            (problem.pure_worst_case_optimum, "StableOpt", "worst case"),
        ):
            action.axhline(float(optimum.action[0]), color=COLOURS[name], linestyle=":", linewidth=1.2)
            action.annotate(
                label, (float(radius[-1]), float(optimum.action[0])), xytext=(0, 4), textcoords="offset points",
                color=COLOURS[name], ha="right", fontsize=8.5,
            )  # fmt: skip
        action.axvline(goal.radius, color="grey", linewidth=0.8, linestyle="--")
        action.set(xlabel=label_x, ylabel="chosen action x", ylim=(0, 1), title="the action")
        for series, colour, label, share in (
            (profile.expected, REFERENCE, "chosen action, expected\nunder the reference", 0.2),
            (profile.worst_case, COLOURS["DRBO"], "chosen action,\nworst case", 0.3),
            (profile.worst_case - profile.protection, COLOURS["UCB"], "stochastic choice,\nworst case", 0.6),
        ):
            value.plot(
                radius, series, color=colour, drawstyle="steps-post" if series is profile.expected else "default"
            )
            i = int(share * (len(radius) - 1))
            value.annotate(
                label, (float(radius[i]), float(series[i])), xytext=(3, 5), textcoords="offset points",
                color=colour, ha="left", va="bottom", fontsize=8,
            )  # fmt: skip
        value.fill_between(
            radius, profile.worst_case - profile.protection, profile.worst_case, color=COLOURS["DRBO"], alpha=0.12
        )
        value.axvline(goal.radius, color="grey", linewidth=0.8, linestyle="--")
        value.annotate(
            "benchmark's\nradius", (goal.radius, 0.0), xytext=(-3, 4), textcoords="offset points",
            color="grey", ha="right", fontsize=7.5,
        )  # fmt: skip
        value.set(xlabel=label_x, ylabel="reward", title="what it is worth", ylim=(0, None))
        _spread(spread, problem, radius, profile.weights)
        spread.axvline(goal.radius, color="grey", linewidth=0.8, linestyle="--")
        spread.set_xlabel(label_x)
        figure.colorbar(spread.collections[0], ax=spread, label="weight, square root", aspect=25)
    return figure


def _spread(panel: Axes, problem: Problem, radius: FloatArray, weights: FloatArray) -> None:
    contexts = problem.contexts[:, 0]
    # Square roots: a few contexts carry most of the weight, and the reference would be invisible beside them.
    panel.pcolormesh(radius, contexts, np.sqrt(weights).T, cmap="Blues", shading="nearest", rasterized=True)
    panel.grid(False)
    panel.set(ylabel="context c", title="the worst distribution")


def sets(problem: Problem, x: int, weights: dict[str, FloatArray], radii: dict[str, float]) -> Figure:
    """Return the reward of one action over the contexts, and under it the worst distribution of every set."""
    titles = {
        "mmd": "MMD", "tv": "total variation", "kl": "KL", "chi2": "chi-square", "cvar": "CVaR",
        "wasserstein": "Wasserstein",
    }  # fmt: skip
    contexts = problem.contexts[:, 0]
    with mpl.rc_context(STYLE):
        figure = new_figure(10.0, 5.2)
        panels = figure.subplots(2, 3, sharex=True).ravel()
        for panel, (name, worst) in zip(panels, weights.items(), strict=True):
            reward = panel.twinx()
            reward.plot(contexts, problem.values[x], color="grey", linewidth=1.0)
            reward.set(ylim=(0, 1.05), yticks=[])
            reward.spines["right"].set_visible(False)
            reward.annotate(
                "reward", (0.97, float(problem.values[x][-2]) + 0.06), color="grey", fontsize=7.5, ha="right"
            )
            panel.fill_between(contexts, problem.reference, color=REFERENCE, alpha=0.35, linewidth=0, step="mid")
            panel.vlines(contexts, 0, worst, color=COLOURS["DRBO"], linewidth=2.6)
            panel.set_title(f"{titles[name]}, radius {radii[name]:.3g}")
            panel.set_ylim(0, 1.08 * max(float(worst.max()), float(problem.reference.max())))
            panel.set_ylabel("weight")
        for panel in panels[3:]:
            panel.set_xlabel("context c")
        peak = int(np.argmax(problem.reference))
        panels[2].annotate(
            "reference", (contexts[peak], float(problem.reference[peak])), xytext=(10, -4), textcoords="offset points",
            color=REFERENCE, fontsize=8,
        )  # fmt: skip
        highest = int(np.argmax(weights["tv"]))
        panels[1].annotate(
            "worst distribution", (contexts[highest], float(weights["tv"][highest])), xytext=(6, -8),
            textcoords="offset points", color=COLOURS["DRBO"], fontsize=8,
        )  # fmt: skip
    return figure
