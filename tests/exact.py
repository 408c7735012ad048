"""Posteriors and fits of drbo's own Gaussian process, whose members beyond the contract some tests look at."""

from drbo.models.gp import FittedGP
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.perturbed import PerturbedPosterior
from drbo.models.regression import ExactPosterior


def exact(posterior: object) -> ExactPosterior | KroneckerPosterior | PerturbedPosterior:
    """Return a posterior that is known to be of a Gaussian process."""
    assert isinstance(posterior, ExactPosterior | KroneckerPosterior | PerturbedPosterior)
    return posterior


def fitted(fit: object) -> FittedGP:
    """Return a fit that is known to be of a Gaussian process."""
    assert isinstance(fit, FittedGP)
    return fit
