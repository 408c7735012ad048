"""Benchmark problems: frozen records with known stochastic, distributionally robust and worst-case optima.

Each function returns one problem. `ALL` holds the functions, `by_name` finds one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from drbo.problems._benchmarks import benchmark_1, benchmark_2, branin_williams, modified_branin
from drbo.problems._problem import Function, Optimum, Problem
from drbo.problems._published import ackley, bertsimas, covid_allocation, hartmann6, newsvendor, robos, three_hump_camel
from drbo.problems._wind import WINDOW_HOURS, nearest_context, revenue, wind, window_distributions, windows
from drbo.problems._wind_csv import WindDataError, WindDataWarning, WindSeries, la_haute_borne, read_wind_csv

__all__ = [
    "ALL",
    "WINDOW_HOURS",
    "Function",
    "Optimum",
    "Problem",
    "WindDataError",
    "WindDataWarning",
    "WindSeries",
    "ackley",
    "benchmark_1",
    "benchmark_2",
    "bertsimas",
    "branin_williams",
    "by_name",
    "covid_allocation",
    "hartmann6",
    "la_haute_borne",
    "modified_branin",
    "nearest_context",
    "newsvendor",
    "read_wind_csv",
    "revenue",
    "robos",
    "three_hump_camel",
    "wind",
    "window_distributions",
    "windows",
]

ALL: tuple[Callable[[], Problem], ...] = (
    benchmark_1,
    benchmark_2,
    wind,
    robos,
    newsvendor,
    modified_branin,
    branin_williams,
    three_hump_camel,
    hartmann6,
    bertsimas,
    ackley,
    covid_allocation,
)
"""The functions that make the problems; each `__name__` is the name of the problem."""


def by_name(name: str) -> Problem:
    """Return the problem with this name (case, - and _ do not matter); an error suggests the nearest name."""
    makers = {maker.__name__: maker for maker in ALL}
    if not isinstance(name, str):
        raise TypeError(f"name must be the name of a problem, got {name!r}")
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    if wanted not in makers:
        (nearest,) = difflib.get_close_matches(wanted, makers, n=1, cutoff=0.0)
        raise ValueError(f"unknown problem {name!r}; did you mean {nearest!r}? Known: {', '.join(makers)}")
    return makers[wanted]()
