"""Models of f: Gaussian processes, their posteriors, and confidence bounds."""

from drbo.models.bounds import (
    LOWER,
    UPPER,
    Bound,
    MaximumInformationGain,
    information_gain,
    maximum_information_gain,
)
from drbo.models.grid import GridPosterior
from drbo.models.learned import LearnedGP
from drbo.models.observation import Observation
from drbo.models.outcomes import Outcomes, Units, standardisation
from drbo.models.surrogate import (
    Data,
    Fit,
    Inputs,
    Posterior,
    SupportsAverages,
    SupportsCovariance,
    SupportsCurve,
    SupportsDraws,
    SupportsGrid,
    SupportsHiddenContexts,
    SupportsInformationGain,
    SupportsLeaveOneOut,
    SupportsPerturbations,
    Surrogate,
    check_surrogate,
    supports,
)

__all__ = [
    "LOWER",
    "UPPER",
    "Bound",
    "Data",
    "Fit",
    "GridPosterior",
    "Inputs",
    "LearnedGP",
    "MaximumInformationGain",
    "Observation",
    "Outcomes",
    "Posterior",
    "SupportsAverages",
    "SupportsCovariance",
    "SupportsCurve",
    "SupportsDraws",
    "SupportsGrid",
    "SupportsHiddenContexts",
    "SupportsInformationGain",
    "SupportsLeaveOneOut",
    "SupportsPerturbations",
    "Surrogate",
    "TheoreticalBeta",
    "Units",
    "check_surrogate",
    "information_gain",
    "maximum_information_gain",
    "standardisation",
    "supports",
]
