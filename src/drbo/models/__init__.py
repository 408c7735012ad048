"""What is known of f: Gaussian processes, their posteriors, and confidence bounds."""

from drbo.models.bounds import (
    LOWER,
    UPPER,
    Bound,
    MaximumInformationGain,
    TheoreticalBeta,
    information_gain,
    maximum_information_gain,
)
from drbo.models.gp import GP
from drbo.models.grid import GridPosterior
from drbo.models.learned import LearnedGP

__all__ = [
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
]
