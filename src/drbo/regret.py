"""Robust regret of a run on a known f, and the paper's bounds on it."""

from drbo.analysis import robust_regret as _robust_regret
from drbo.analysis.robust_regret import *  # noqa: F403  # all names of the module, by its __all__

__all__ = _robust_regret.__all__
