"""Distributionally robust Bayesian optimization: certified decisions under shifting conditions.

The story, in the order of the folders: spaces -> models -> ambiguity sets -> rounds -> optimizer -> analysis. Rules for
the radius are in `drbo.radius`, regret and its bounds in `drbo.regret`, benchmark problems in `drbo.problems`, the
paper's experiments in `drbo.experiments`.

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
    from drbo.ambiguity import AnyOf as AnyOf
    from drbo.ambiguity import ChiSquare as ChiSquare
    from drbo.ambiguity import CVaR as CVaR
    from drbo.ambiguity import Expectation as Expectation
    from drbo.ambiguity import Intersection as Intersection
    from drbo.ambiguity import Moments as Moments
    from drbo.ambiguity import Neighbourhood as Neighbourhood
    from drbo.ambiguity import Shares as Shares
    from drbo.ambiguity import TotalVariation as TotalVariation
    from drbo.ambiguity import Wasserstein as Wasserstein
    from drbo.ambiguity import WorstCase as WorstCase
    from drbo.ambiguity import WorstCaseError as WorstCaseError
    from drbo.analysis.backtest import Backtest as Backtest
    from drbo.analysis.backtest import backtest as backtest
    from drbo.analysis.explain_radius import explain_radius as explain_radius
    from drbo.analysis.profile import RadiusProfile as RadiusProfile
    from drbo.analysis.radius_explanation import RadiusExplanation as RadiusExplanation
    from drbo.analysis.sensitivity import RadiusSensitivity as RadiusSensitivity
    from drbo.analysis.watch import Watch as Watch
    from drbo.kernels import RBF as RBF
    from drbo.kernels import ConstantKernel as ConstantKernel
    from drbo.kernels import Kernel as Kernel
    from drbo.kernels import Matern as Matern
    from drbo.kernels import Product as Product
    from drbo.models import GP as GP
    from drbo.models import LOWER as LOWER
    from drbo.models import UPPER as UPPER
    from drbo.models import Bound as Bound
    from drbo.models import GridPosterior as GridPosterior
    from drbo.models import LearnedGP as LearnedGP
    from drbo.models import MaximumInformationGain as MaximumInformationGain
    from drbo.models import TheoreticalBeta as TheoreticalBeta
    from drbo.models import information_gain as information_gain
    from drbo.models import maximum_information_gain as maximum_information_gain
    from drbo.optimizer import Classification as Classification
    from drbo.optimizer import Comparison as Comparison
    from drbo.optimizer import Explanation as Explanation
    from drbo.optimizer import LeaveOneOut as LeaveOneOut
    from drbo.optimizer import Narrowing as Narrowing
    from drbo.optimizer import NotCertifiedError as NotCertifiedError
    from drbo.optimizer import Optimizer as Optimizer
    from drbo.optimizer import Prediction as Prediction
    from drbo.optimizer import Probability as Probability
    from drbo.optimizer import Recommendation as Recommendation
    from drbo.optimizer import RegretBound as RegretBound
    from drbo.optimizer import Result as Result
    from drbo.optimizer import Suggestion as Suggestion
    from drbo.optimizer import TargetRecommendation as TargetRecommendation
    from drbo.optimizer import ValueAtRisk as ValueAtRisk
    from drbo.optimizer import from_json as from_json
    from drbo.optimizer import run as run
    from drbo.optimizer import to_json as to_json
    from drbo.rounds import Chance as Chance
    from drbo.rounds import ChanceConstrained as ChanceConstrained
    from drbo.rounds import Choice as Choice
    from drbo.rounds import DataDriven as DataDriven
    from drbo.rounds import General as General
    from drbo.rounds import Informative as Informative
    from drbo.rounds import JointOptimism as JointOptimism
    from drbo.rounds import LevelSet as LevelSet
    from drbo.rounds import MeanEmbedding as MeanEmbedding
    from drbo.rounds import Optimism as Optimism
    from drbo.rounds import Pessimistic as Pessimistic
    from drbo.rounds import Policy as Policy
    from drbo.rounds import Round as Round
    from drbo.rounds import Satisficing as Satisficing
    from drbo.rounds import Setting as Setting
    from drbo.rounds import Simulator as Simulator
    from drbo.rounds import Thompson as Thompson
    from drbo.rounds import Uncertain as Uncertain
    from drbo.rounds import Undecided as Undecided
    from drbo.rounds import ValueOfInformation as ValueOfInformation
    from drbo.spaces import Box as Box
    from drbo.spaces import Categorical as Categorical
    from drbo.spaces import Integer as Integer
    from drbo.spaces import Log as Log
    from drbo.spaces import Normal as Normal
    from drbo.spaces import Ordinal as Ordinal
    from drbo.spaces import Parameter as Parameter
    from drbo.spaces import Perturbation as Perturbation
    from drbo.spaces import Real as Real
    from drbo.spaces import Samples as Samples
    from drbo.spaces import Uniform as Uniform

__version__ = "0.2.0.dev0"

_ROOMS = ("experiments", "problems", "radius", "regret")
_HOMES = {
    "drbo.ambiguity": (
        "KL",
        "MMD",
        "AmbiguitySet",
        "AnyOf",
        "CVaR",
        "ChiSquare",
        "Expectation",
        "Intersection",
        "Moments",
        "Neighbourhood",
        "Shares",
        "TotalVariation",
        "Wasserstein",
        "WorstCase",
        "WorstCaseError",
    ),
    "drbo.analysis.backtest": (
        "Backtest",
        "backtest",
    ),
    "drbo.analysis.explain_radius": ("explain_radius",),
    "drbo.analysis.radius_explanation": ("RadiusExplanation",),
    "drbo.analysis.profile": ("RadiusProfile",),
    "drbo.analysis.sensitivity": ("RadiusSensitivity",),
    "drbo.analysis.watch": ("Watch",),
    "drbo.kernels": (
        "RBF",
        "ConstantKernel",
        "Kernel",
        "Matern",
        "Product",
    ),
    "drbo.models": (
        "GP",
        "LOWER",
        "UPPER",
        "Bound",
        "GridPosterior",
        "LearnedGP",
        "MaximumInformationGain",
        "TheoreticalBeta",
        "information_gain",
        "maximum_information_gain",
    ),
    "drbo.optimizer": (
        "Classification",
        "Comparison",
        "Explanation",
        "LeaveOneOut",
        "Narrowing",
        "NotCertifiedError",
        "Optimizer",
        "Prediction",
        "Probability",
        "Recommendation",
        "RegretBound",
        "Result",
        "Suggestion",
        "TargetRecommendation",
        "ValueAtRisk",
        "run",
        "from_json",
        "to_json",
    ),
    "drbo.rounds": (
        "Chance",
        "ChanceConstrained",
        "Choice",
        "Round",
        "DataDriven",
        "General",
        "Informative",
        "JointOptimism",
        "LevelSet",
        "MeanEmbedding",
        "Optimism",
        "Pessimistic",
        "Policy",
        "Satisficing",
        "Setting",
        "Simulator",
        "Thompson",
        "Uncertain",
        "Undecided",
        "ValueOfInformation",
    ),
    "drbo.spaces": (
        "Box",
        "Categorical",
        "Integer",
        "Log",
        "Normal",
        "Ordinal",
        "Parameter",
        "Perturbation",
        "Real",
        "Samples",
        "Uniform",
    ),
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
