"""Distributionally robust Bayesian optimization: certified decisions under shifting conditions.

The story, in the order of the modules: space -> surrogate -> confidence bounds -> ambiguity set (worst case) ->
policy -> optimizer. Regret and its bounds are in `drbo.regret`, rules for the radius in `drbo.radius`.
"""

from drbo import radius, regret
from drbo.ambiguity import MMD, AmbiguitySet, Expectation, Neighbourhood, WorstCase, WorstCaseError
from drbo.confidence import MaximumInformationGain, TheoreticalBeta, information_gain, maximum_information_gain
from drbo.kernels import RBF, Kernel, Matern, Product
from drbo.optimizer import Optimizer, Recommendation, Suggestion
from drbo.settings import DataDriven, General, Setting, Simulator
from drbo.surrogate import GP, GridPosterior

__version__ = "0.1.0"

__all__ = [
    "GP",
    "MMD",
    "RBF",
    "AmbiguitySet",
    "DataDriven",
    "Expectation",
    "General",
    "GridPosterior",
    "Kernel",
    "Matern",
    "MaximumInformationGain",
    "Neighbourhood",
    "Optimizer",
    "Product",
    "Recommendation",
    "Setting",
    "Simulator",
    "Suggestion",
    "TheoreticalBeta",
    "WorstCase",
    "WorstCaseError",
    "information_gain",
    "maximum_information_gain",
    "radius",
    "regret",
]
