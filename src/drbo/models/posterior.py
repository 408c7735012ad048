"""What a posterior of f answers, whatever the model of f is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from drbo.models.curve import Curve
from drbo.models.gp import GP
from drbo.models.observation import Observation, Scatter
from drbo.models.path import AnyDraw
from drbo.spaces.space import Point
from drbo.validation import FloatArray


class AnyPosterior(Protocol):
    """The posterior of f for actions anywhere, on a finite set of contexts and, through `curve`, in any context.

    `drbo.models.regression.Posterior` says what the attributes and the methods are.
    """

    contexts: FloatArray

    @property
    def gp(self) -> GP: ...  # noqa: D102

    @property
    def actions(self) -> FloatArray: ...  # noqa: D102

    @property
    def n_observations(self) -> int: ...  # noqa: D102

    @property
    def information_gain(self) -> float: ...  # noqa: D102

    @property
    def errors_known(self) -> bool: ...  # noqa: D102

    @property
    def factorises(self) -> bool: ...  # noqa: D102

    def with_more(self, observations: Sequence[Observation]) -> Self: ...  # noqa: D102

    def on(self, contexts: FloatArray) -> Self: ...  # noqa: D102

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def on_grid(self) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def averaged(self, weights: FloatArray) -> Self: ...  # noqa: D102

    def covariance(  # noqa: D102
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray: ...

    def scatter(self, observation: Observation) -> Scatter: ...  # noqa: D102

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray: ...  # noqa: D102

    def curve(self, action: FloatArray, slope: float) -> Curve: ...  # noqa: D102

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102

    def draws(self, rng: Generator, count: int, actions: FloatArray | None = None) -> FloatArray: ...  # noqa: D102

    def draw(self, rng: Generator, *, between: bool = False) -> AnyDraw: ...  # noqa: D102

    def check_draw(self, *, between: bool) -> None: ...  # noqa: D102

    def check_draws(self) -> None: ...  # noqa: D102

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102
