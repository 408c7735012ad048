"""What is known of f: Gaussian processes, their posteriors, and confidence bounds."""

from drbo.models.bounds import (
    LOWER,
    UPPER,
    Bound,
    MaximumInformationGain,
    information_gain,
    maximum_information_gain,
)
from drbo.models.grid import GridPosterior

__all__ = [
    "LOWER",
    "UPPER",
    "Bound",
    "GridPosterior",
    "MaximumInformationGain",
    "information_gain",
    "maximum_information_gain",
]
