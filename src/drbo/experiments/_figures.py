"""The figures of the paper, the radius dial and comparisons; each function returns a figure of the records."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import colors, dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drbo.experiments._tasks import SETTINGS, Goal, RadiusDial
from drbo.experiments.records import Table, mean_and_error, per_run, select
from drbo.experiments.style import COLOURS, DARK, MARKERS, MORE_COLOURS, REFERENCE, STYLE, TRUTH, label_ends, new_figure
from drbo.problems import Problem
from drbo.validation import FloatArray

TITLES = {"benchmark_1": "Benchmark 1", "benchmark_2": "Benchmark 2"}
SOLUTIONS = {
    "UCB": "best if the\nreference is true",
    "DRBO": "best in the worst\ndistribution nearby",
    "StableOpt": "best in the worst\ncontext nearby",
}
"""The goal of each method, as shown in a figure."""


@mpl.rc_context(STYLE)
def figure1(problems: list[Problem]) -> Figure:
    """Return contours of the benchmark functions with both distributions and the solutions."""
    figure = new_figure(10.0, 4.4)
    grid = figure.add_gridspec(1, 2 * len(problems), width_ratios=[4, 1.3] * len(problems))
    for i, problem in enumerate(problems):
        main = figure.add_subplot(grid[2 * i])
        _contour_panel(figure, main, problem)
        _density_panel(figure.add_subplot(grid[2 * i + 1], sharey=main), problem)
    return figure


@mpl.rc_context(STYLE)
def demo(problem: Problem, records: Table, seed: int) -> Figure:
    """Return the problem with its solutions beside the robust regret of the methods that search for them."""
    figure = new_figure(11.0, 4.4)
    main, side, regret = figure.subplots(1, 3, width_ratios=[4, 1.3, 4])
    side.sharey(main)
    _contour_panel(figure, main, problem)
    _density_panel(side, problem)
    _regret_panel(regret, records)
    regret.set(ylabel="cumulative robust regret", title="what the methods lose on the way")
    regret.set_xlabel(f"round; {_runs_and_bands(records, seed)}")
    return figure


def _contour_panel(figure: Figure, panel: Axes, problem: Problem) -> None:
    x, c = problem.actions[:, 0], problem.contexts[:, 0]
    contours = panel.contourf(x, c, problem.values.T, levels=14, cmap="Greys", alpha=0.85)
    bar = figure.colorbar(contours, ax=panel, location="bottom", aspect=40, pad=0.02)
    bar.set_label("reward f(x, c)", fontsize=8)
    bar.set_ticks(list(np.arange(0.0, 1.01, 0.25)))
    panel.grid(False)
    title = TITLES.get(problem.name, problem.name)
    panel.set(xlabel="action x, ours", ylabel="context c, nature's", ylim=(0, 1))
    panel.set_title(title, pad=34)  # room for the labels of the solutions
    optima = {
        "UCB": problem.stochastic_optimum,
        "DRBO": problem.robust_optimum,
        "StableOpt": problem.worst_case_optimum,
    }
    together = len({optimum.action_index for optimum in optima.values()}) == 1
    for name, optimum in optima.items():
        if together and name != "DRBO":
            continue
        at = float(optimum.action[0])
        panel.axvline(at, color=COLOURS[name], linewidth=1.4, linestyle=":")
        panel.plot(
            [at], [1.0], marker=MARKERS[name], color=COLOURS[name], markeredgecolor="white",
            markersize=13 if name == "DRBO" else 9, clip_on=False, zorder=3,
        )  # fmt: skip
        panel.annotate(
            "best in each\nof three ways" if together else SOLUTIONS[name], (at, 1.0), xytext=(0, 9),
            textcoords="offset points", color=COLOURS[name], ha="center", va="bottom", fontsize=7.5,
            annotation_clip=False,
        )  # fmt: skip


def _density_panel(panel: Axes, problem: Problem) -> None:
    """Draw both distributions of the contexts, with labels above and below."""
    c = problem.contexts[:, 0]
    both = np.maximum(problem.reference, problem.true_distribution)
    wide = c[both > 0.15 * both.max()]
    for density, colour, label, height, side in (
        (problem.reference, REFERENCE, "reference:\nwhat is known", float(wide[-1]) + 0.03, "bottom"),
        (problem.true_distribution, TRUTH, "the truth,\nshifted", float(wide[0]) - 0.03, "top"),
    ):
        panel.fill_betweenx(c, 0, density, color=colour, alpha=0.45, linewidth=0)
        panel.plot(density, c, color=colour)
        panel.text(float(both.max()), height, label, color=DARK[colour], ha="right", va=side, fontsize=7.5)
    panel.set(xticks=[], xlabel="how likely")
    panel.tick_params(labelleft=False)
    panel.spines["bottom"].set_visible(False)


def _runs_and_bands(records: Table, seed: int) -> str:
    """Return the caption for the lines and bands of regret panels."""
    runs = len(np.unique(records["run"]))
    if runs == 1:
        return f"one run, seed {seed}"
    return f"mean of {runs} runs, seed {seed}; bands: one standard error"


@mpl.rc_context(STYLE)
def figure2(records: Table, problems: list[str], seed: int) -> Figure:
    """Return cumulative robust regret over the runs: a row per benchmark, a column per setting."""
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
    figure.supxlabel(f"each line: {_runs_and_bands(records, seed)}", fontsize=8.5)
    return figure


@mpl.rc_context(STYLE)
def corollary4(records: Table, problems: list[str], seed: int) -> Figure:
    """Return cumulative robust regret in the data-driven setting with Corollary 4's radius: a panel per benchmark."""
    figure = new_figure(4.6 * len(problems), 3.2)
    for panel, problem in zip(figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True):
        _regret_panel(panel, select(records, problem=problem))
        title = f"{TITLES.get(problem, problem)}, radius of Corollary 4"
        panel.set(title=title, xlabel="round", ylabel="cumulative robust regret")
    figure.supxlabel(f"each line: {_runs_and_bands(records, seed)}", fontsize=8.5)
    return figure


@mpl.rc_context(STYLE)
def compare(records: Table, problems: list[str]) -> Figure:
    """Return both regrets, a row per problem; with a constraint also how often it is violated, and open actions."""
    judged = "infeasible" in records
    figure = new_figure(20.0 if judged else 10.0, 3.2 * len(problems))
    axes = figure.subplots(len(problems), 4 if judged else 2, squeeze=False)
    for row, problem in enumerate(problems):
        own = select(records, problem=problem)
        runs = len(np.unique(own["run"]))
        title = f"{TITLES.get(problem, problem)}, {own['setting'][0]}, {runs} {'run' if runs == 1 else 'runs'}"
        cumulative, simple, *constraint = axes[row]
        _regret_panel(cumulative, own)
        _regret_panel(simple, own, "simple regret", total=False)
        cumulative.set(title=title, ylabel="cumulative robust regret")
        simple.set(title="mean and standard error", ylabel="robust regret of what is recommended")
        if judged:
            missed, undecided = constraint
            _regret_panel(missed, own, "infeasible", total=False)
            _regret_panel(undecided, own, "open", total=False)
            missed.set(title="the constraint is missed", ylabel="share of runs that recommend such an action")
            undecided.set(title="without a label", ylabel="open actions")
    for panel in axes[-1]:
        panel.set_xlabel("round")
    return figure


def _regret_panel(panel: Axes, records: Table, column: str = "regret", total: bool = True) -> None:
    """Draw the mean of a column over the runs with its standard error, summed over rounds if `total`."""
    ends: dict[str, tuple[float, float]] = {}
    methods = list(dict.fromkeys(records["method"].tolist()))
    others = itertools.cycle(MORE_COLOURS)
    colours = {method: COLOURS[method] if method in COLOURS else next(others) for method in methods}
    for method in methods:
        own = select(records, method=method)
        values = per_run(own, column)
        if np.isnan(values).all():
            continue
        rounds = own["round"].reshape(len(values), -1)[0]
        last = _line(panel, rounds, values.cumsum(axis=1) if total else values, colours[method], 0.25)
        ends[method] = float(rounds[-1]), last
    panel.set_ylim(bottom=0)
    panel.set_xlim(left=0, right=max((x for x, _ in ends.values()), default=1.0))
    panel.margins(x=0)
    label_ends(panel, ends, gap=0.085, colours=colours)


def _line(panel: Axes, x: Any, values: FloatArray, colour: str, alpha: float, **looks: Any) -> float:
    """Draw the mean over the runs of values (runs, n), with its standard error as a band; return the last mean."""
    mean, error = mean_and_error(values)
    panel.plot(x, mean, color=colour, **looks)
    if len(values) > 1:
        panel.fill_between(x, mean - error, mean + error, color=colour, alpha=alpha, linewidth=0)
    return float(mean[-1])


@mpl.rc_context(STYLE)
def figure3(
    hours: Table, backtests: Table, radii: dict[str, float], title: str, start: np.datetime64, seed: int, every: int = 1
) -> Figure:
    """Return the wind year: revenue, regret and dials; each hour of the records stands for `every` hours."""
    figure = new_figure(14.0, 4.0)
    revenue, regret, *dials = figure.subplots(1, 4, width_ratios=[1.2, 1.2, 0.85, 0.85])
    for panel, column, label in (
        (revenue, "revenue", "cumulative revenue (share of capacity x hours)"),
        (regret, "regret", "cumulative robust regret (the same unit)"),
    ):
        ends = {}
        for method in ("exact DRO", "DRBO", "UCB", "StableOpt", "no commitment"):
            own = select(hours, method=method)
            if column == "regret" and method == "exact DRO":
                continue  # zero by definition
            totals = every * per_run(own, column).cumsum(axis=1)
            days = start + own["hour"][: totals.shape[1]].astype("timedelta64[h]")
            dashed = "--" if method == "exact DRO" else "-"
            last = _line(panel, days, totals, COLOURS[method], 0.3, linestyle=dashed, linewidth=1.5)
            ends[method] = dates.date2num(days[-1]), last
        panel.set_ylabel(label)
        panel.xaxis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=5))
        panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(panel.xaxis.get_major_locator(), show_offset=False))
        panel.margins(x=0)
        label_ends(panel, ends, gap=0.065)
    revenue.set_title(f"what came in: {title}")
    regret.set_title("what was lost in the worst case")
    revenue.set_xlabel(f"exact DRO is best in the worst case,\nnot in what came: {_exact_beside(hours)}")
    regret.set_xlabel("distance to exact DRO, the best commitment\nin the worst distribution of each hour")
    _radius_panels(dials, backtests, radii)
    figure.supxlabel(_hours_and_seeds(hours, seed, every), fontsize=8.5)
    return figure


def _hours_and_seeds(hours: Table, seed: int, every: int) -> str:
    """Return a caption: the solved hours of figure 3, the number of runs, and the meaning of the bands."""
    solved, runs = len(np.unique(hours["hour"])), len(np.unique(hours["run"]))
    which = (
        f"every hour ({solved})"
        if every == 1
        else f"every {every}{_ending(every)} hour ({solved}), which stands for {every} hours,"
    )
    if runs == 1:
        return f"{which} is solved once by each method, with noise of seed {seed}"
    bands = "lines: mean; bands: one standard error of the mean over the noise"
    return f"{which} is solved {runs} times by each method, with noise of seeds {seed} to {seed + runs - 1}; {bands}"


def _ending(count: int) -> str:
    """Return the ending of an ordinal number: st, nd, rd or th."""
    return "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")


def _exact_beside(hours: Table) -> str:
    """Return a phrase that compares the revenue of DRBO and of the exact solution; equal within two standard errors."""
    totals = (per_run(select(hours, method=method), "revenue").sum(axis=1) for method in ("DRBO", "exact DRO"))
    more, error = mean_and_error(np.subtract(*totals))
    if abs(more) <= 2.0 * np.nan_to_num(error):
        return "both earned about the same"
    return "DRBO had luck" if more > 0.0 else "DRBO had no luck"


def _radius_panels(panels: list[Axes], backtests: Table, radii: dict[str, float]) -> None:
    """Draw the revenue of each radius in both years: a panel per method, because their radii have different units."""
    years = np.unique(backtests["year"])
    best = float(backtests["revenue"].max())
    for panel, method, unit in zip(panels, ("DRBO", "StableOpt"), ("MMD", "Euclidean"), strict=True):
        ends = {}
        for year, style in zip(years, ("--", "-"), strict=False):
            own = select(backtests, method=method, year=year)
            shown = own["radius"] <= LARGEST_SHOWN
            panel.plot(own["radius"][shown], own["revenue"][shown], style, color=COLOURS[method], marker=".")
            ends[str(year)] = (float(own["radius"][shown][-1]), float(own["revenue"][shown][-1]))
        # Revenue below zero, where StableOpt's radius is reckless, is not shown.
        panel.set(ylim=(0, 1.3 * best), xlim=(0, LARGEST_SHOWN), title=method, xlabel=f"radius ({unit})")
        label_ends(panel, ends, gap=0.075, colours=dict.fromkeys(ends, COLOURS[method]))
        panel.axvline(radii[method], ymax=0.8, color=COLOURS[method], linewidth=1.0, linestyle=":")
        panel.text(
            radii[method], 1.06 * best, f"best in {years[0]}:\nused in {years[-1]}", color=COLOURS[method],
            ha="left" if radii[method] < 0.5 * LARGEST_SHOWN else "center", va="bottom", fontsize=8,
        )  # fmt: skip
    panels[0].set_ylabel("revenue of a year, solved exactly")
    panels[1].tick_params(labelleft=False)


LARGEST_SHOWN = 0.5
"""The largest radius shown in figure 3."""


@mpl.rc_context(STYLE)
def dial(problem: Problem, profile: RadiusDial, goal: Goal) -> Figure:
    """Return action, value and worst distribution as functions of the radius, from stochastic to worst case."""
    figure = new_figure(12.0, 3.9)
    action, value, spread = figure.subplots(1, 3, width_ratios=[1, 1.2, 1.3], sharex=True)
    radius = profile.radius
    chosen = problem.actions[profile.action_index, 0]
    action.plot(radius, chosen, color=COLOURS["DRBO"], drawstyle="steps-post")
    for optimum, name, label, where, side in (
        (problem.stochastic_optimum, "UCB", "best if the reference is true", -4, "top"),
        (problem.pure_worst_case_optimum, "StableOpt", "best in the worst case", 4, "bottom"),
    ):
        action.axhline(float(optimum.action[0]), color=COLOURS[name], linestyle=":", linewidth=1.2)
        action.annotate(
            label, (float(radius[-1]), float(optimum.action[0])), xytext=(0, where), textcoords="offset points",
            color=COLOURS[name], ha="right", va=side, fontsize=8,
        )  # fmt: skip
    action.set(ylabel="action x", ylim=(0, 1), title="which action is the best")
    stochastic = profile.worst_case - profile.protection
    ends, colours = {}, {}
    for series, colour, label, steps in (
        (profile.expected, REFERENCE, "if the reference\nis true", "steps-post"),
        (profile.worst_case, COLOURS["DRBO"], "in the worst case", "default"),
        (stochastic, COLOURS["UCB"], "worst case of the\naction of radius 0", "default"),
    ):
        value.plot(radius, series, color=colour, drawstyle=steps)
        ends[label], colours[label] = (float(radius[-1]), float(series[-1])), DARK.get(colour, colour)
    value.fill_between(radius, stochastic, profile.worst_case, color=COLOURS["DRBO"], alpha=0.12)
    value.set(ylabel="expected reward of the action", title="what it brings", ylim=(0, None))
    label_ends(value, ends, gap=0.1, colours=colours)
    _spread(spread, problem, radius, profile.weights)
    bar = figure.colorbar(spread.collections[0], ax=spread, label="weight of the context", aspect=25)
    bar.set_ticks([tick for tick in (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0) if tick <= profile.weights.max()])
    for panel in (action, value, spread):
        panel.axvline(goal.radius, color="grey", linewidth=0.8, linestyle="--")
        panel.set_xlabel(f"radius ({type(goal.ambiguity).__name__}) of a shift")
    action.annotate(
        "radius of the benchmark", (goal.radius, 1.0), xytext=(4, -3), textcoords="offset points",
        color="dimgrey", va="top", fontsize=7.5,
    )  # fmt: skip
    return figure


def _spread(panel: Axes, problem: Problem, radius: FloatArray, weights: FloatArray) -> None:
    contexts = problem.contexts[:, 0]
    # A square-root colour scale: a few contexts carry most of the weight, and the reference would be invisible.
    scale = colors.PowerNorm(0.5, vmin=0.0, vmax=float(weights.max()))
    panel.pcolormesh(radius, contexts, weights.T, norm=scale, cmap="Blues", shading="nearest", rasterized=True)
    panel.grid(False)
    panel.set(ylabel="context c", title="where the worst distribution has its weight")


@mpl.rc_context(STYLE)
def sets(problem: Problem, x: int, weights: dict[str, FloatArray], radii: dict[str, float]) -> Figure:
    """Return the reward of one action over the contexts, beside the worst distribution of every set."""
    titles = {
        "mmd": "MMD", "tv": "total variation", "kl": "KL", "chi2": "chi-square", "cvar": "CVaR",
        "wasserstein": "Wasserstein",
    }  # fmt: skip
    contexts, values = problem.contexts[:, 0], problem.values[x]
    expected, worst_of = float(values @ problem.reference), [float(values @ worst) for worst in weights.values()]
    figure = new_figure(12.0, 5.6)
    panels = figure.subplots(2, 4, sharex=True, width_ratios=[1.1, 1, 1, 1])
    reward, reference = panels[:, 0]
    reward.plot(contexts, values, color="black")
    reward.set(
        ylim=(0, 1.05), ylabel="reward f(x, c)", title=f"the reward of one action,\nx = {problem.actions[x, 0]:.2f}"
    )
    reward.text(0.5, 0.05, "good in the middle,\npoor at both ends", ha="center", fontsize=8)
    _bars(reference, contexts, problem.reference, REFERENCE)
    reference.set_title(f"reference\nexpected reward {expected:.2f}")
    highest = 1.08 * max(float(worst.max()) for worst in (*weights.values(), problem.reference))
    for panel, name, value in zip(panels[:, 1:].ravel(), weights, worst_of, strict=True):
        _bars(panel, contexts, problem.reference, REFERENCE, alpha=0.35)
        _bars(panel, contexts, weights[name], COLOURS["DRBO"], width=0.6)
        panel.set_title(f"{titles[name]}, radius {radii[name]:.3g}\nexpected reward {value:.2f}")
    for panel in (reference, *panels[:, 1:].ravel()):
        panel.set_ylim(0, highest)
        panel.tick_params(labelleft=panel in (reference, panels[0, 1]))
    for panel in (reference, panels[0, 1]):
        panel.set_ylabel("weight of the context")
    for panel in panels[1]:
        panel.set_xlabel("context c")
    figure.suptitle(
        "The worst distribution (dark) that each set allows, beside the reference (light); all weights on one scale"
    )
    return figure


def _bars(
    panel: Axes, contexts: FloatArray, weights: FloatArray, colour: str, width: float = 1.0, alpha: float = 1.0
) -> None:
    """Draw weights as bars; `width` is a share of the distance between contexts."""
    panel.bar(contexts, weights, width * float(contexts[1] - contexts[0]), color=colour, alpha=alpha, linewidth=0)
