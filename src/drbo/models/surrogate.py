"""The contract of a model of f: a surrogate, its fit, its posterior, and optional capabilities of a posterior.

A `Surrogate` is frozen configuration. It learns a `Fit` from outcomes, which is saved in files. It makes an immutable
`Posterior` from a fit and observations. A custom model is two or three classes with these members, without base class.

Each optional capability of a posterior is a protocol `Supports...`. A policy names the capabilities it needs
(`Policy.needs`), and an optimizer raises at construction if its surrogate lacks one (`require`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from drbo._fast_record import fast_record
from drbo.models.curve import Curve
from drbo.models.data import Observation, Outcomes, Scatter, Units
from drbo.models.observation_rows import Rows
from drbo.spaces.space import AnySpace, Displacement, Point
from drbo.validation import FloatArray

Values = Callable[[FloatArray], FloatArray]
"""A function of contexts (m, d_c), with values (m,)."""


# --- inputs and data ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of f: an action and a context, or a perturbed action.

    Attributes
    ----------
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    d_context : the number of coordinates of a context
    shift : the map from perturbations to places, if contexts perturb the action; then f(x + xi) has no context
    """

    actions: FloatArray
    d_context: int
    shift: Displacement | None = None

    @property
    def d_action(self) -> int:
        """The number of coordinates of an action."""
        return int(self.actions.shape[1])

    @property
    def d_kernel(self) -> int:
        """The number of context coordinates that f depends on: 0 if the context moves the action."""
        return self.d_context if self.shift is None else 0

    def seen(self, outcomes: Outcomes) -> Outcomes:
        """Return outcomes at the arguments of f: at x + xi and without context, if there is a shift."""
        if self.shift is None:
            return outcomes
        places = outcomes.x + self.shift.steps(outcomes.c)
        nothing = np.empty((len(places), 0))
        return Outcomes(places, nothing, outcomes.y, outcomes.stderr, outcomes.evaluation)


@fast_record
class Data:
    """The observations of a posterior, standardised, in the order told; a failure has no outcome."""

    inputs: Inputs
    observations: Sequence[Observation] = ()
    n_together: int = 0
    """Number of observations from evaluations with several outcomes."""
    _first: dict[int, Rows] = field(default_factory=dict, repr=False)  # cache of one, for several models

    def and_also(self, more: Sequence[Observation]) -> Data:
        """Return the data with further observations."""
        together = self.n_together
        for one in more:
            if one.before + one.after and one.outcome is not None:
                together += 1
        made = Data(self.inputs, [*self.observations, *more], together)
        if "rows" in vars(self):
            vars(made)["rows"] = self.rows.and_also(made._rows_of(more))
        return made

    @cached_property
    def rows(self) -> Rows:
        """The observations as arrays."""
        return self._rows_of(self.observations)

    def first_rows(self, count: int) -> Rows:
        """Return the first observations as arrays (cached)."""
        found = self._first.get(count)
        if found is None:
            found = self.rows.at(np.arange(count))
            self._first.clear()
            self._first[count] = found
        return found

    def _rows_of(self, observations: Sequence[Observation]) -> Rows:
        return Rows.of(observations, self.inputs.d_action, self.inputs.d_context)


# --- the contract ---------------------------------------------------------------------------------------------------


@runtime_checkable
class Fit(Protocol):
    """The result of learning: the hyper-parameters, and the units of the outcomes.

    A fit is saved. It is a frozen dataclass of numbers, text, arrays and tuples, or a class with a method
    `arguments()`. The same fit and observations must give a posterior with the same bits.
    """

    @property
    def n_outcomes(self) -> int:
        """The number of outcomes that the fit was learned from."""

    def units(self, sign: float) -> Units:
        """Return the units of the outcomes; `sign` is -1 if they are minimised."""


@runtime_checkable
class Posterior(Protocol):
    """The posterior of f in the model's units, for actions anywhere, on a finite set of contexts. Immutable."""

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d_c) of the queries."""

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f."""

    @property
    def noise(self) -> float:
        """The standard deviation of the error of an outcome."""

    def with_more(self, observations: Sequence[Observation]) -> Self:
        """Return the posterior with further observations.

        An observation without an outcome is a pending evaluation: the variance shrinks, and the mean stays.
        """

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context."""

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere."""

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,)."""

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""


@runtime_checkable
class Surrogate(Protocol):
    """A model of f: frozen configuration.

    Attributes
    ----------
    learns : whether anything is learned from the outcomes, offset and scale included
    bound_width : the least default width of a bound, in standard deviations
    """

    @property
    def learns(self) -> bool: ...

    @property
    def bound_width(self) -> float: ...

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return a finite set in the model's coordinates: the set itself, or `space.in_unit_cube()`."""

    def first(self, inputs: Inputs, sign: float) -> Fit:
        """Return the fit before any outcome; raise if the model does not suit the inputs. `sign`: -1 to minimise."""

    def due(self, n_outcomes: int, last: Any) -> bool:
        """Return whether to fit again, with `n_outcomes` outcomes and the last fit."""

    def refit(self, outcomes: Outcomes, last: Any) -> Fit:
        """Return the fit to all outcomes so far, to be maximised, in the user's units; `last` is the previous fit."""

    def posterior(self, fit: Any, data: Data, contexts: FloatArray, last: Any = None) -> Posterior:
        """Return the posterior of the observations of `data` on contexts (n, d_c).

        `last` is a posterior that this method made from the same fit and the first observations, perhaps on other
        contexts. Extending `last` is allowed for speed; the bits of the result must not depend on it.
        """


# --- capabilities ---------------------------------------------------------------------------------------------------


class SupportsGrid(Protocol):
    """Mean and variance on the grid of actions."""

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_actions, n_contexts) of f on the grid of actions."""

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action, possibly on the grid."""


class SupportsCurve(Protocol):
    """Bounds over cells of contexts, for contexts with a range."""

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), as a function of any contexts."""


class SupportsCovariance(Protocol):
    """Covariances of f between actions and contexts."""

    def covariance(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the covariance (p, m, k) of f at p points with k averages over contexts for each of m actions.

        Actions (m, d_x) may lie anywhere. An average of action i is sum_j w_j f(x_i, c_j), weights (m, k, n_contexts).
        A point is given by the indices of its action, `rows` (p,), and its context, `columns` (p,).
        """

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x), other (d_x,)."""


class SupportsAverages(Protocol):
    """The posterior of an average of f over contexts, in which errors of different contexts cancel."""

    def averaged(self, weights: FloatArray) -> Posterior:
        """Return the posterior of sum_j w_j f(x, c_j), weights w (n_contexts,), as for one context."""


class SupportsHiddenContexts(Protocol):
    """Outcomes whose context was never revealed."""

    def scatter(self, observation: Observation) -> Scatter:
        """Return the scatter of f in one of an observation's contexts about their average."""


class SupportsDraws(Protocol):
    """Draws of f."""

    def draw(self, rng: Generator, *, between: bool = False) -> AnyDraw:
        """Return one draw of f; `between`: also for contexts between those of the posterior."""

    def draws(self, rng: Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return joint draws of f (count, m, n_contexts) at actions (m, d_x), by default the grid."""

    def check_draw(self, *, between: bool) -> None:
        """Raise if `draw` is not possible with the kernels of this posterior."""

    def check_draws(self) -> None:
        """Raise if `draws` at few actions are not possible with the kernels of this posterior."""


class SupportsLeaveOneOut(Protocol):
    """Predictions of every outcome from all others."""

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return every outcome minus its prediction from all others, and the variance, in the order told."""


class SupportsAlternatives(Protocol):
    """A surrogate with several fits that the outcomes do not rule out; bounds then use them all."""

    def alternatives(self, fit: Any, outcomes: Outcomes) -> tuple[Fit, ...]:
        """Return further fits beside `fit`, in the same units, the same for the same arguments.

        `outcomes` are all outcomes so far, to be maximised, in the user's units.
        """


class SupportsManyOutcomes(Protocol):
    """A posterior that is too large for a search, which uses an approximation of it; bounds of one action do not."""

    @property
    def searched(self) -> Posterior:
        """The posterior that a search uses."""

    @property
    def n_inducing(self) -> int:
        """The number of inducing points of the approximation."""

    @property
    def n_nearest(self) -> int:
        """The number of outcomes that a bound of one action rests on."""

    def leave_one_out(self, most: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the result of `SupportsLeaveOneOut`; with `most` for about so many outcomes, and nan for the others.

        The outcomes are chosen by their inputs alone.
        """


class SupportsSomeContexts(Protocol):
    """Moments in some of the contexts, faster than in all of them."""

    def moments_in(self, actions: FloatArray, used: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, k) at actions (m, d_x), in the contexts of the indices `used` (k,)."""


class SupportsInformationGain(Protocol):
    """The information gain of the observations, which `TheoreticalBeta` uses."""

    @property
    def information_gain(self) -> float:
        """Log det(I + K_t / ridge) of the observations (eq. 4 without the maximum)."""

    @property
    def errors_known(self) -> bool:
        """Whether any observation has a known standard error instead of the model's noise."""


class SupportsPerturbations(Protocol):
    """A surrogate for contexts that perturb the action."""

    def of_actions(self) -> Surrogate:
        """Return this model for an f of the perturbed action alone; raise if the model depends on contexts."""


Capability = type[Any]
_T = TypeVar("_T")
_SUPPORTED: dict[tuple[type, Any], bool] = {}


def supports(model: object, capability: Callable[..., _T]) -> TypeGuard[_T]:
    """Return whether a posterior or a surrogate has all members of a capability: a faster `isinstance`.

    The result is cached per class. A posterior with a known part supports what the posterior of f does.
    """
    model = getattr(model, "of_f", model)
    key = type(model), capability
    found = _SUPPORTED.get(key)
    if found is None:
        names = [name for name in vars(capability) if not name.startswith("_")]
        found = all(hasattr(type(model), name) or hasattr(model, name) for name in names)
        _SUPPORTED[key] = found
    return found


def require(posterior: Posterior, capabilities: Sequence[Capability], who: str, surrogate: object) -> None:
    """Raise unless a posterior of the surrogate has all capabilities that `who` needs."""
    for capability in capabilities:
        if not supports(posterior, capability):
            what = (inspect.getdoc(capability) or "").splitlines()[0].rstrip(".")
            raise TypeError(
                f"{who} needs a surrogate with the capability {capability.__name__} ({what}), which {surrogate!r} lacks"
            )


def check_surrogate(surrogate: object) -> Surrogate:
    """Return the surrogate unchanged; raise if a member of the contract is missing."""
    if isinstance(surrogate, type) or not isinstance(surrogate, Surrogate):
        members = ("learns", "bound_width", "adapted", "first", "due", "refit", "posterior")
        missing = [name for name in members if not hasattr(surrogate, name)]
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        raise TypeError(
            f"surrogate must be a GP, a LearnedGP or another drbo.models.Surrogate, got {surrogate!r}{lacks}"
        )
    return surrogate


def moments_in(posterior: Posterior, actions: FloatArray, used: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (m, k) at actions (m, d_x), in the contexts `used` (k,)."""
    if supports(posterior, SupportsSomeContexts):
        return posterior.moments_in(actions, used)
    mean, variance = posterior.moments(actions)
    return mean[:, used], variance[:, used]


def of_action(posterior: Posterior, action: Point) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (n_contexts,) of f for one action."""
    if supports(posterior, SupportsGrid):
        return posterior.of_action(action)
    mean, variance = posterior.moments(action.coordinates[None, :])
    return mean[0], variance[0]


# --- estimates ------------------------------------------------------------------------------------------------------


class Estimate(Protocol):
    """A bound or a draw: a function of action and context used as f by a search, in the contexts of a round."""

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f, the scale of the values."""

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the values of the actions `rows` of a grid (n_actions, d_x), by default of all, in every context."""

    def of_action(self, action: Point) -> FloatArray:
        """Return the values of one action in every context, (n_contexts,)."""

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the values (m, k) at actions (m, d_x) anywhere, in the contexts `used` (k,); by default in all."""

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j value(x, c_j) at one action (d_x,), shape (d_x,)."""

    def curve(self, action: FloatArray) -> Values:
        """Return the values of one action (d_x,) as a function of the context."""

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of sum_j w_j value(x, c_j) at actions (m, d_x), for weights w (n_contexts,)."""


class AnyDraw(Estimate, Protocol):
    """One draw of f in the contexts of a round."""

    def on(self, contexts: FloatArray) -> Self:
        """Return the same draw in other contexts (n, d_c)."""


class AnyCurve(Protocol):
    """Mean + slope std of f(x, .) for one action x, in any context."""

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f, each (m,), in contexts (m, d_c)."""

    def variance(self, contexts: FloatArray) -> FloatArray:
        """Return the variance of f alone (m,) in contexts (m, d_c)."""

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return a lower bound (m,) of v(c) - tilt'(c - centre) over the cells |c - centre| <= half, for slope <= 0."""


@dataclass(frozen=True, eq=False)
class Pointwise:
    """The curve of a posterior that predicts points only, without bounds over cells."""

    posterior: Posterior
    action: FloatArray
    slope: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""
        mean, variance = self.moments(contexts)
        return np.asarray(mean + self.slope * np.sqrt(variance))

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f, each (m,), in contexts (m, d_c)."""
        return self.posterior.predict(np.repeat(self.action[None, :], len(contexts), axis=0), contexts)

    def variance(self, contexts: FloatArray) -> FloatArray:
        """Return the variance of f alone (m,) in contexts (m, d_c)."""
        return self.moments(contexts)[1]

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return -inf: there is no bound between points, so every point of a cell must be evaluated."""
        del halves, tilt
        return np.full(len(centres), -np.inf)


def curve_of(posterior: Posterior, action: FloatArray, slope: float) -> AnyCurve:
    """Return mean + slope std of f(x, .) for one action (d_x,), with bounds over cells if the posterior has them."""
    if supports(posterior, SupportsCurve):
        return posterior.curve(action, slope)
    return Pointwise(posterior, action, slope)
