"""Benchmark problems: frozen records with known stochastic, distributionally robust and worst-case optima.

Each function returns one problem. `ALL` holds the functions, `by_name` finds one.
"""

from drbo.problems import _benchmarks, _published, _wind_csv
from drbo.problems._benchmarks import *  # noqa: F403  # all names of the module, by its __all__
from drbo.problems._published import *  # noqa: F403  # noqa: F403
from drbo.problems._wind_csv import *  # noqa: F403

__all__ = [*_benchmarks.__all__, *_published.__all__, *_wind_csv.__all__]
