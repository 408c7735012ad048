"""Distributionally robust Bayesian optimization: certified decisions under shifting conditions.

The story, in the order of the modules: space -> surrogate -> confidence bounds -> ambiguity set (worst case) ->
policy -> optimizer. Rules for the radius are in `drbo.radius`, regret and its bounds in `drbo.regret`, benchmark
problems in `drbo.problems`, the paper's experiments in `drbo.experiments`.

Names are imported when they are first used, so that `drbo --help` need not wait for the compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drbo import experiments as experiments
    from drbo import problems as problems
    from drbo import radius as radius
    from drbo import regret as regret
    from drbo.ambiguity import KL as KL
    from drbo.ambiguity import MMD as MMD
    from drbo.ambiguity import AmbiguitySet as AmbiguitySet
    from drbo.ambiguity import ChiSquare as ChiSquare
    from drbo.ambiguity import CVaR as CVaR
    from drbo.ambiguity import Expectation as Expectation
    from drbo.ambiguity import Neighbourhood as Neighbourhood
    from drbo.ambiguity import TotalVariation as TotalVariation
    from drbo.ambiguity import Wasserstein as Wasserstein
    from drbo.ambiguity import WorstCase as WorstCase
    from drbo.ambiguity import WorstCaseError as WorstCaseError
    from drbo.analysis.profile import RobustnessProfile as RobustnessProfile
    from drbo.analysis.profile import profile as profile
    from drbo.analysis.profile import radius_for_loss as radius_for_loss
    from drbo.kernels import RBF as RBF
    from drbo.kernels import Kernel as Kernel
    from drbo.kernels import Matern as Matern
    from drbo.kernels import Product as Product
    from drbo.models.bounds import MaximumInformationGain as MaximumInformationGain
    from drbo.models.bounds import TheoreticalBeta as TheoreticalBeta
    from drbo.models.bounds import information_gain as information_gain
    from drbo.models.bounds import maximum_information_gain as maximum_information_gain
    from drbo.models.gp import GP as GP
    from drbo.models.gp import GridPosterior as GridPosterior
    from drbo.models.learned import LearnedGP as LearnedGP
    from drbo.optimizer.optimizer import Optimizer as Optimizer
    from drbo.optimizer.suggestion import Recommendation as Recommendation
    from drbo.optimizer.suggestion import Suggestion as Suggestion
    from drbo.rounds.settings import DataDriven as DataDriven
    from drbo.rounds.settings import General as General
    from drbo.rounds.settings import Setting as Setting
    from drbo.rounds.settings import Simulator as Simulator
    from drbo.spaces.box import Box as Box
    from drbo.spaces.box import Categorical as Categorical
    from drbo.spaces.box import Integer as Integer
    from drbo.spaces.box import Log as Log
    from drbo.spaces.box import Real as Real
    from drbo.spaces.samples import Samples as Samples

__version__ = "0.1.0"

_ROOMS = ("experiments", "problems", "radius", "regret")
_HOMES = {
    "drbo.ambiguity": (
        "KL",
        "MMD",
        "AmbiguitySet",
        "CVaR",
        "ChiSquare",
        "Expectation",
        "Neighbourhood",
        "TotalVariation",
        "Wasserstein",
        "WorstCase",
        "WorstCaseError",
    ),
    "drbo.models.bounds": ("MaximumInformationGain", "TheoreticalBeta", "information_gain", "maximum_information_gain"),
    "drbo.kernels": ("RBF", "Kernel", "Matern", "Product"),
    "drbo.models.learned": ("LearnedGP",),
    "drbo.optimizer.optimizer": ("Optimizer",),
    "drbo.spaces.samples": ("Samples",),
    "drbo.spaces.box": ("Box", "Categorical", "Integer", "Log", "Real"),
    "drbo.optimizer.suggestion": ("Recommendation", "Suggestion"),
    "drbo.analysis.profile": ("RobustnessProfile", "profile", "radius_for_loss"),
    "drbo.rounds.settings": ("DataDriven", "General", "Setting", "Simulator"),
    "drbo.models.gp": ("GP", "GridPosterior"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_ROOMS, *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"drbo.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'drbo' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
