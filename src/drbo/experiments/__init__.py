"""Experiments: problem x method x seed -> records -> figures, for the paper and for comparisons of any methods."""

from drbo.experiments import _methods, _reproduce, _tasks, records, wind_year
from drbo.experiments._methods import *  # noqa: F403  # all names of the module, by its __all__
from drbo.experiments._reproduce import *  # noqa: F403
from drbo.experiments._tasks import *  # noqa: F403
from drbo.experiments.records import *  # noqa: F403
from drbo.experiments.wind_year import *  # noqa: F403

__all__ = [*_methods.__all__, *_reproduce.__all__, *_tasks.__all__, *records.__all__, *wind_year.__all__]
