"""The figures can be read: no word lies across another one, nor across a curve."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from drbo.experiments import METHODS, _figures
from drbo.experiments._tasks import SETTINGS, Goal, RadiusDial
from drbo.experiments.records import Table, select
from drbo.experiments.style import new_figure
from drbo.problems import Problem, benchmark_1, benchmark_2

START = np.datetime64("2015-01-01T00")


def words(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return every word of a drawn figure, ticks apart, with the place that it takes in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    ticks = {label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    found = [text for text in figure.findobj(Text) if text not in ticks and text.get_visible() and text.get_text()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in found]


def curves(figure: Figure) -> Iterator[np.ndarray]:
    """Yield the vertices (n, 2) of every curve in pixels; straight lines that mark a value are none."""
    for line in figure.findobj(Line2D):
        xy = line.get_transform().transform(line.get_xydata())
        if len(xy) > 4 and line.axes is not None:
            yield np.concatenate([np.linspace(a, b, 20) for a, b in itertools.pairwise(xy)])


def clashes(figure: Figure) -> list[str]:
    """Return what lies across what."""
    placed = words(figure)
    wrong = [
        f"{one!r} and {other!r}"
        for i, (one, here) in enumerate(placed)
        for other, there in placed[:i]
        if here.padded(-1.0).overlaps(there.padded(-1.0))
    ]
    for curve in curves(figure):
        for text, box in placed:
            inside = (curve > [box.x0, box.y0]) & (curve < [box.x1, box.y1])
            if inside.all(axis=1).any():
                wrong.append(f"{text!r} and a curve")
    page = figure.bbox
    wrong += [f"{text!r} leaves the page" for text, box in placed if box.x0 < page.x0 - 1 or box.x1 > page.x1 + 1]
    return wrong


def days(text: str, runs: int = 1) -> Table:
    """Return hours of five methods that earn at different rates, more in later runs."""
    methods, n = ("exact DRO", "DRBO", "UCB", "StableOpt", "no commitment"), 48
    rates = np.repeat(np.array([0.9, float(text), 0.6, 0.8, 0.3]), runs * n)
    hours, run = np.tile(np.arange(n), len(methods) * runs), np.tile(np.repeat(np.arange(runs), n), len(methods))
    earned = rates * (1.0 + 0.01 * run)
    return {"method": np.repeat(methods, runs * n), "run": run, "hour": hours, "revenue": earned, "regret": 1.0 - rates}


def radii() -> Table:
    shares = np.linspace(0.0, 0.5, 6)
    rows = [(m, y, r, 5.0 - (r - 0.2) ** 2) for m in ("DRBO", "StableOpt") for y in (2014, 2015) for r in shares]
    return dict(zip(("method", "year", "radius", "revenue"), map(np.array, zip(*rows, strict=True)), strict=True))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return benchmark_1()


def test_the_check_finds_what_is_wrong() -> None:
    figure = new_figure(4.0, 3.0)
    axes = figure.subplots()
    axes.plot(np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 9))
    axes.text(0.5, 0.5, "across the curve", ha="center")
    axes.text(0.1, 0.9, "one")
    assert clashes(figure) == ["'across the curve' and a curve"]
    axes.text(0.1, 0.9, "other")
    figure.text(0.9, 0.2, "far too long for this page")
    assert len(clashes(figure)) == 3


def test_figure1(problem: Problem) -> None:
    assert clashes(_figures.figure1([problem, benchmark_2()])) == []


def test_demo(problem: Problem) -> None:
    rounds, methods = np.arange(1, 21), ("DRBO", "UCB", "StableOpt")
    records = {
        "method": np.repeat(methods, 20),
        "run": np.zeros(60, dtype=int),
        "round": np.tile(rounds, 3),
        "regret": np.repeat([0.1, 0.3, 0.31], 20),
    }
    assert clashes(_figures.demo(problem, records, 0)) == []


def regrets(runs: int) -> Table:
    """Return records of both benchmarks in all settings, in which every method loses at a rate of its own."""
    rates = {"DRBO": 0.01, "UCB": 0.3, "StableOpt": 0.31, "StableOpt (own contexts)": 0.2}
    rows = [
        (problem, setting, method, run, t, rate * (1.0 + 0.1 * run))
        for problem in ("benchmark_1", "benchmark_2")
        for setting in SETTINGS
        for method, rate in rates.items()
        for run in range(runs)
        for t in range(1, 21)
    ]
    names = ("problem", "setting", "method", "run", "round", "regret")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize(
    ("runs", "said"), [(1, "one run, seed 7"), (3, "mean of 3 runs, seed 7; bands: one standard error")]
)
def test_regret_figures_say_how_many_runs_there_were_and_what_the_bands_are(runs: int, said: str) -> None:
    records = regrets(runs)
    problems = ["benchmark_1", "benchmark_2"]
    for draw in (_figures.figure2, _figures.corollary4):
        chosen = records if draw is _figures.figure2 else select(records, setting="data-driven")
        figure = draw(chosen, problems, 7)
        assert clashes(figure) == []
        assert any(said in text for text, _ in words(figure))


def test_every_method_of_a_comparison_has_a_colour_of_its_own() -> None:
    labels = [method.label for method in METHODS.values()]
    rows = [(m, "simulator", "benchmark_1", run, t, 0.1, 0.1) for m in labels for run in (0, 1) for t in (1, 2)]
    names = ("method", "setting", "problem", "run", "round", "regret", "simple regret")
    table = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    lines = _figures.compare(table, ["benchmark_1"]).axes[0].lines
    assert len({line.get_color() for line in lines}) == len(labels)


def test_a_comparison_with_a_constraint_has_two_more_panels() -> None:
    rows = [
        (m, "simulator", "benchmark_1", run, t, 0.1, 0.1 / t, (run + t) % 2, np.nan if m == "UCB" else 9 - t)
        for m in ("UCB", "Chance", "Level set")
        for run in (0, 1)
        for t in (1, 2, 3)
    ]
    names = ("method", "setting", "problem", "run", "round", "regret", "simple regret", "infeasible", "open")
    table = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    figure = _figures.compare(table, ["benchmark_1"])
    _, _, missed, undecided = figure.axes
    assert len(missed.lines) == 3
    np.testing.assert_allclose(np.asarray(missed.lines[0].get_ydata()), 0.5)
    assert [np.asarray(line.get_ydata()).tolist() for line in undecided.lines] == [[8.0, 7.0, 6.0]] * 2
    assert [line.get_color() for line in undecided.lines] == [line.get_color() for line in missed.lines[1:]]
    assert clashes(figure) == []


def test_dial_and_sets(problem: Problem) -> None:
    aim = Goal.of(problem, "mmd")
    table = RadiusDial.of(problem, aim, np.linspace(0.0, 1.1, 12))
    assert clashes(_figures.dial(problem, table, aim)) == []
    x = problem.robust_optimum.action_index
    names = ("mmd", "tv", "kl", "chi2", "cvar", "wasserstein")
    weights = dict.fromkeys(names, np.eye(len(problem.contexts))[0])
    figure = _figures.sets(problem, x, weights, dict.fromkeys(names, 0.0867))
    assert clashes(figure) == []
    others = [axes for axes in figure.axes if "reward of one action" not in axes.get_title()]
    assert len({axes.get_ylim() for axes in others}) == 1  # all weights on one scale


@pytest.mark.parametrize(
    ("rate", "luck", "runs", "every", "said"),
    [
        ("0.85", "no luck", 1, 1, "every hour (48) is solved once by each method, with noise of seed 3"),
        ("0.9", "about the same", 1, 2, "every 2nd hour (48), which stands for 2 hours, is solved once by each method"),
        ("0.95", "DRBO had luck", 4, 11, "every 11th hour (48), which stands for 11 hours, is solved 4 times by each "
         "method, with noise of seeds 3 to 6; lines: mean; bands: one standard error of the mean over the noise"),
    ],
)  # fmt: skip
def test_figure3_says_which_hours_were_solved_what_bands_are_and_why_the_exact_solution_need_not_earn_most(
    rate: str, luck: str, runs: int, every: int, said: str
) -> None:
    chosen = {"DRBO": 0.2, "StableOpt": 0.4}
    figure = _figures.figure3(days(rate, runs), radii(), chosen, "La Haute Borne, 2015", START, 3, every)
    assert clashes(figure) == []
    revenue = figure.axes[0]
    assert luck in revenue.get_xlabel()
    assert any(said in text for text, _ in words(figure))
    ends = [np.asarray(line.get_ydata(), dtype=float)[-1] for line in revenue.lines]
    mean = float(rate) * (1.0 + 0.01 * (runs - 1) / 2.0)
    assert np.isclose(ends, 48 * every * mean, rtol=1e-12).any()  # an hour stands for `every` hours
    assert len(revenue.collections) == (5 if runs > 1 else 0)  # a band per method
