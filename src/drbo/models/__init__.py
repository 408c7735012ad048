"""Models of f: Gaussian processes, their posteriors, and confidence bounds."""

from drbo.models.bounds import (
    LOWER,
    UPPER,
    Bound,
    MaximumInformationGain,
    information_gain,
    maximum_information_gain,
)
from drbo.models.data import Observation, Outcomes, Units, outcomes_of, standardisation
from drbo.models.learned import LearnedGP
from drbo.models.regression import ExactPosterior
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
    SupportsManyOutcomes,
    SupportsPerturbations,
    Surrogate,
    check_surrogate,
    supports,
)

__all__ = [
    "LOWER", "UPPER", "Bound", "Data", "ExactPosterior", "Fit", "Inputs", "LearnedGP", "MaximumInformationGain",
    "Observation", "Outcomes", "Posterior", "SupportsAverages", "SupportsCovariance", "SupportsCurve", "SupportsDraws",
    "SupportsGrid", "SupportsHiddenContexts", "SupportsInformationGain", "SupportsLeaveOneOut", "SupportsManyOutcomes",
    "SupportsPerturbations", "Surrogate", "Units", "check_surrogate", "information_gain", "maximum_information_gain",
    "outcomes_of", "standardisation", "supports",
]  # fmt: skip
