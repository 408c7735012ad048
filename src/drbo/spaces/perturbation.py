"""Perturbations of the action itself: f is evaluated at x + xi, and the context is xi.

A real parameter is moved by xi, in its units. For a `Log` parameter, xi is added to the natural logarithm, so the value
is multiplied by exp(xi): 0.05 is about 5%.
"""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo._messages import listed, printable
from drbo.spaces.box import Box
from drbo.spaces.samples import Samples
from drbo.spaces.space import Displacement, Space
from drbo.validation import FloatArray

__all__ = ["Normal", "Perturbation", "Uniform"]

ATOMS = (64, 128)
"""Number of atoms for one named distribution, and for several together (a power of 2)."""
_SPREAD = 128
"""Number of initial atoms in a box of perturbations."""


class Distribution(ABC):
    """A named distribution of one number."""

    @abstractmethod
    def atoms(self, count: int) -> FloatArray:
        """Return equally likely numbers (count,), increasing: quantiles, with the exact mean and standard deviation."""


@dataclass(frozen=True)
class Normal(Distribution):
    """The normal distribution with this mean and standard deviation."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", validation.finite_float("mean", self.mean))
        object.__setattr__(self, "std", validation.positive_float("std", self.std))

    def atoms(self, count: int) -> FloatArray:
        return _matched(statistics.NormalDist().inv_cdf, count, self.mean, self.std)


@dataclass(frozen=True)
class Uniform(Distribution):
    """The uniform distribution from `low` to `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = validation.finite_float("low", self.low), validation.finite_float("high", self.high)
        if not low < high or not math.isfinite(high - low):
            raise ValueError(f"low must be less than high, and high - low finite, got {low} and {high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def atoms(self, count: int) -> FloatArray:
        width = math.sqrt(12.0)  # of the standardised distribution
        mean, std = 0.5 * self.low + 0.5 * self.high, (self.high - self.low) / width
        return _matched(lambda share: width * (share - 0.5), count, mean, std)


def _matched(quantile: Callable[[float], float], count: int, mean: float, std: float) -> FloatArray:
    """Return the quantiles at (i + 1/2) / count, (count,), with this mean and standard deviation."""
    quantiles = np.array([quantile((i + 0.5) / count) for i in range(count)])
    return np.asarray(mean + std * ((quantiles - quantiles.mean()) / quantiles.std()))


class Perturbation(Samples):
    """Perturbations of the action itself, as contexts: f is evaluated at x + xi, and modelled as a function of x + xi.

        contexts=drbo.Perturbation(setpoint=[-0.3, 0.1, 0.2, -0.1])    # past perturbations, in time order
        contexts=drbo.Perturbation(setpoint=drbo.Normal(0.0, 0.2))     # a known distribution
        contexts=drbo.Perturbation(drbo.Box(setpoint=(-0.5, 0.5)))     # a tolerance: any value in between

    Each column has the name of the action parameter that it perturbs. If actions are points, an array (n, d) has one
    column per coordinate. Real and `Log` parameters can be perturbed. For `Log`, the perturbation is added to the
    natural logarithm: 0.05 multiplies the value by exp(0.05).

    The perturbed action may leave the box of the actions. Evaluate it there: the model has no bounds.

    Parameters
    ----------
    given : a DataFrame or a mapping from names to columns, whose rows belong together; an array (n, d); `Samples`, to
        set weights and the number of atoms; a `Box`, if nothing has been seen yet; or a mapping from names to
        distributions
    columns : samples or distributions by name, instead of `given`. Distributions are independent. One distribution
        becomes 64 equally likely atoms, several together become 128 well-spread atoms. The atoms of each column have
        the exact mean and standard deviation
    """

    def __init__(self, given: Any = None, /, **columns: Any) -> None:
        if (given is None) != bool(columns):
            raise TypeError(
                "Perturbation needs the perturbations of each parameter by name, such as "
                "Perturbation(setpoint=[-0.3, 0.1]), or one table of them instead of names"
            )
        table = columns if given is None else given
        self.distributions: dict[str, Distribution] = _distributions(table)
        if self.distributions:
            super().__init__(_atoms(self.distributions), support=0)
        elif isinstance(table, Samples):
            super().__init__(**Samples.arguments(table))
        elif isinstance(table, Box):
            super().__init__([], within=table, support=_SPREAD)
        else:
            super().__init__(table)
        self.observed = not self.distributions
        if self.keys is not None:
            raise TypeError("Perturbation must have no keys: a perturbation is evaluated at any action, not replayed")
        for column in self.space.columns:
            if column.labels is not None or column.logarithmic:
                raise TypeError(
                    f"Perturbation must hold numbers, which are added to the action, but {printable(column)} does not"
                )

    def __repr__(self) -> str:
        if self.distributions:
            named = (f"{printable(name)}={one!r}" for name, one in self.distributions.items())
            return f"Perturbation({', '.join(named)})"
        return super().__repr__().replace("Samples", "Perturbation", 1)

    def arguments(self) -> dict[str, Any]:
        return {"given": self.distributions or Samples(**super().arguments())}

    @classmethod
    def from_arguments(cls, given: Any) -> Self:
        """Return the perturbation with these samples, or these distributions by name."""
        return cls(given)

    def shift(self, actions: Space) -> Displacement:
        """Return the shift that the perturbations apply to the actions of a space."""
        columns = actions.movable(self.names, self.dimension)
        units = actions.units[columns]
        start, directions = np.zeros(actions.dimension), np.zeros((self.dimension, actions.dimension))
        start[columns] = self.space.measured(np.zeros((1, self.dimension)))[0] / units
        directions[np.arange(self.dimension), columns] = self.space.units / units
        return Displacement(validation.frozen(start), validation.frozen(directions))


def _distributions(table: Any) -> dict[str, Distribution]:
    """Return the distributions by name; empty if the table holds samples."""
    if isinstance(table, Perturbation):
        return table.distributions
    if not isinstance(table, Mapping):
        return {}
    named = {str(name): one for name, one in table.items() if isinstance(one, Distribution)}
    if named and len(named) < len(table):
        others = listed(name for name, one in table.items() if not isinstance(one, Distribution))
        raise TypeError(
            "Perturbation must have samples of all columns, whose rows belong together, or a distribution of each, but "
            f"{listed(named)} is a distribution and {others} is not"
        )
    return named


def _atoms(distributions: Mapping[str, Distribution]) -> dict[str, FloatArray]:
    """Return equally likely atoms of independent distributions, per column.

    Several columns are combined by a Sobol sequence. In its first 2^k points, each coordinate is a permutation of
    0, 1, ..., 2^k - 1 in units of 2^-k. These are the ranks of the atoms.
    """
    if len(distributions) == 1:
        return {name: one.atoms(ATOMS[0]) for name, one in distributions.items()}
    from scipy.stats import qmc  # imported here because the import is slow

    net = qmc.Sobol(len(distributions), scramble=False).random_base2(ATOMS[1].bit_length() - 1)
    ranks = np.rint(net.T * ATOMS[1]).astype(np.intp)
    return {name: one.atoms(ATOMS[1])[rank] for (name, one), rank in zip(distributions.items(), ranks, strict=True)}
