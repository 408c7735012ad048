"""Experiments: problem x method x seed -> records -> figures, for the paper and for comparisons of any methods."""

from drbo.experiments import _compare, _methods, _reproduce, _tasks, paper_claims, records, wind_year
from drbo.experiments._compare import *  # noqa: F403  # all names of the module, by its __all__
from drbo.experiments._methods import *  # noqa: F403
from drbo.experiments._reproduce import *  # noqa: F403
from drbo.experiments._tasks import *  # noqa: F403
from drbo.experiments.paper_claims import *  # noqa: F403
from drbo.experiments.records import *  # noqa: F403
from drbo.experiments.wind_year import *  # noqa: F403

__all__ = [
    *_compare.__all__,
    *_methods.__all__,
    *_reproduce.__all__,
    *_tasks.__all__,
    *paper_claims.__all__,
    *records.__all__,
    *wind_year.__all__,
]
