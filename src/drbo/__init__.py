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
    from drbo.confidence import MaximumInformationGain as MaximumInformationGain
    from drbo.confidence import TheoreticalBeta as TheoreticalBeta
    from drbo.confidence import information_gain as information_gain
    from drbo.confidence import maximum_information_gain as maximum_information_gain
    from drbo.hyperparameters import LearnedGP as LearnedGP
    from drbo.kernels import RBF as RBF
    from drbo.kernels import Kernel as Kernel
    from drbo.kernels import Matern as Matern
    from drbo.kernels import Product as Product
    from drbo.optimizer import Optimizer as Optimizer
    from drbo.robustness import RobustnessProfile as RobustnessProfile
    from drbo.robustness import profile as profile
    from drbo.robustness import radius_for_loss as radius_for_loss
    from drbo.samples import Samples as Samples
    from drbo.settings import DataDriven as DataDriven
    from drbo.settings import General as General
    from drbo.settings import Setting as Setting
    from drbo.settings import Simulator as Simulator
    from drbo.space import Box as Box
    from drbo.space import Categorical as Categorical
    from drbo.space import Integer as Integer
    from drbo.space import Log as Log
    from drbo.space import Real as Real
    from drbo.suggestion import Recommendation as Recommendation
    from drbo.suggestion import Suggestion as Suggestion
    from drbo.surrogate import GP as GP
    from drbo.surrogate import GridPosterior as GridPosterior

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
    "drbo.confidence": ("MaximumInformationGain", "TheoreticalBeta", "information_gain", "maximum_information_gain"),
    "drbo.kernels": ("RBF", "Kernel", "Matern", "Product"),
    "drbo.hyperparameters": ("LearnedGP",),
    "drbo.optimizer": ("Optimizer",),
    "drbo.samples": ("Samples",),
    "drbo.space": ("Box", "Categorical", "Integer", "Log", "Real"),
    "drbo.suggestion": ("Recommendation", "Suggestion"),
    "drbo.robustness": ("RobustnessProfile", "profile", "radius_for_loss"),
    "drbo.settings": ("DataDriven", "General", "Setting", "Simulator"),
    "drbo.surrogate": ("GP", "GridPosterior"),
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
