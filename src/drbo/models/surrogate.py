"""The contract of a model of f: a surrogate, its fit, its posterior, and what a posterior may be capable of beside.

A `Surrogate` is frozen configuration. It learns a `Fit` from outcomes, which is a fact that files hold, and makes a
`Posterior` from a fit and observations, which is derived and never changes. A model of one's own is two or three
classes with these members; none of them needs a base class.

Whatever only some posteriors can do is a protocol `Supports...` of its own. A policy names those that it needs
(`Policy.needs`), and an optimizer whose surrogate lacks one of them is refused when it is made (`require`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from drbo.models.curve import Curve
from drbo.models.observation import Observation, Scatter
from drbo.models.outcomes import Outcomes
from drbo.models.units import Units
from drbo.spaces.space import AnySpace, Point, Shift
from drbo.validation import FloatArray

Values = Callable[[FloatArray], FloatArray]
"""A function of contexts (m, d_c), with values (m,)."""


# --- what a model is of ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inputs:
    """What f is a function of: an action and a context, or the action with a perturbation of it.

    Attributes
    ----------
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    d_context : the number of coordinates of a context
    shift : where a perturbation leads, if contexts are perturbations of the action; then f(x + xi) has no context
    """

    actions: FloatArray
    d_context: int
    shift: Shift | None = None

    @property
    def d_action(self) -> int:
        """The number of coordinates of an action."""
        return int(self.actions.shape[1])

    @property
    def d_kernel(self) -> int:
        """The number of coordinates of a context that f depends on: none, if the context moves the action."""
        return self.d_context if self.shift is None else 0

    def seen(self, outcomes: Outcomes) -> Outcomes:
        """Return outcomes at what f is a function of: at x + xi and in no context, if there is a shift."""
        if self.shift is None:
            return outcomes
        places = outcomes.x + self.shift.steps(outcomes.c)
        nothing = np.empty((len(places), 0))
        return Outcomes(places, nothing, outcomes.y, outcomes.stderr, outcomes.evaluation)


@dataclass(frozen=True, eq=False)
class Data:
    """What a posterior is made from.

    Attributes
    ----------
    inputs : what f is a function of
    observations : in the order in which they were told, standardised; without an outcome where an evaluation failed
    """

    inputs: Inputs
    observations: Sequence[Observation] = ()
    n_together: int = 0
    """How many of them are outcomes of an evaluation that has several."""

    def and_also(self, more: Sequence[Observation]) -> Data:
        """Return the data with further observations."""
        together = self.n_together
        for one in more:
            if one.before + one.after and one.outcome is not None:
                together += 1
        return Data(self.inputs, [*self.observations, *more], together)


# --- the contract ---------------------------------------------------------------------------------------------------


@runtime_checkable
class Fit(Protocol):
    """What a surrogate learned: the hyper-parameters, and the units of the outcomes under them.

    A fit is a fact, and is saved: a frozen dataclass of numbers, text, arrays and tuples, or a class with a method
    `arguments()`. The same fit and observations must give a posterior of the same bits.
    """

    @property
    def n_outcomes(self) -> int:
        """How many outcomes it was learned from."""

    def units(self, sign: float) -> Units:
        """Return the units of the outcomes; `sign` is -1 if they are minimised."""


@runtime_checkable
class Posterior(Protocol):
    """The posterior of f in the model's units, for actions anywhere, on a finite set of contexts. It never changes."""

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d_c) that its answers are for."""

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f."""

    @property
    def noise(self) -> float:
        """The standard deviation of the error of an outcome."""

    def with_more(self, observations: Sequence[Observation]) -> Self:
        """Return the posterior with further observations.

        An observation without an outcome is an evaluation under way: the variance shrinks, and the mean stays.
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
    certificate_width : the least width of a bound by default, in standard deviations
    """

    @property
    def learns(self) -> bool: ...  # noqa: D102

    @property
    def certificate_width(self) -> float: ...  # noqa: D102

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return a finite set with the coordinates that the model wants: the set itself, or `space.in_unit_cube()`."""

    def first(self, inputs: Inputs, sign: float) -> Fit:
        """Return the fit before any outcome; raise if the model is not for such inputs. `sign`: -1 to minimise."""

    def due(self, n_outcomes: int, last: Any) -> bool:
        """Return whether to fit again, with so many outcomes after the last fit."""

    def refit(self, outcomes: Outcomes, last: Any) -> Fit:
        """Return the fit to all outcomes so far, which are maximised, in the user's units; `last` is the one before."""

    def posterior(self, fit: Any, data: Data, contexts: FloatArray, last: Any = None) -> Posterior:
        """Return the posterior of the observations of `data` on contexts (n, d_c).

        `last` is a posterior that this method made from the same fit, for the first of the observations, perhaps on
        other contexts. It may be extended where that is quicker; the bits must not depend on it.
        """


# --- capabilities ---------------------------------------------------------------------------------------------------


class SupportsGrid(Protocol):
    """It keeps mean and variance on the grid of actions."""

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_actions, n_contexts) of f on the grid of actions."""

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action, which may have a place on the grid."""


class SupportsCurve(Protocol):
    """Bounds over whole cells of contexts, for contexts with a range."""

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), to be called with contexts anywhere."""


class SupportsCovariance(Protocol):
    """Covariances of f between actions and contexts."""

    def covariance(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the covariance (p, m, k) of f at p points with k averages over contexts for each of m actions.

        Actions (m, d_x) may lie anywhere. An average of action i is sum_j w_j f(x_i, c_j), weights (m, k, n_contexts).
        A point is an action and a context, by their indices `rows` (p,) and `columns` (p,).
        """

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x), other (d_x,)."""


class SupportsAverages(Protocol):
    """The posterior of an average of f over contexts, in which errors of different contexts cancel."""

    def averaged(self, weights: FloatArray) -> Posterior:
        """Return the posterior of sum_j w_j f(x, c_j), weights w (n_contexts,), as that of one context."""


class SupportsHiddenContexts(Protocol):
    """Outcomes whose context was never revealed."""

    def scatter(self, observation: Observation) -> Scatter:
        """Return how far f in one of the contexts of an observation is from their average."""


class SupportsDraws(Protocol):
    """Draws of f."""

    def draw(self, rng: Generator, *, between: bool = False) -> AnyDraw:
        """Return one draw of f; `between`: as a function of contexts between those of the posterior, too."""

    def draws(self, rng: Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return draws of f (count, m, n_contexts), jointly at actions (m, d_x), by default those of the grid."""

    def check_draw(self, *, between: bool) -> None:
        """Raise if `draw` is not possible with the kernels of this posterior."""

    def check_draws(self) -> None:
        """Raise if `draws` at few actions are not possible with the kernels of this posterior."""


class SupportsLeaveOneOut(Protocol):
    """Predictions of every outcome from all others."""

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return what every outcome exceeds the prediction from all others by, and the variance, in the order told."""


class SupportsInformationGain(Protocol):
    """The information gain of the observations, which `TheoreticalBeta` rests on."""

    @property
    def information_gain(self) -> float:
        """Log det(I + K_t / ridge) of the observations (eq. 4 without the maximum)."""

    @property
    def errors_known(self) -> bool:
        """Whether the error of any observation has a known deviation, in place of the model's noise."""


class SupportsPerturbations(Protocol):
    """Of a surrogate: contexts that are perturbations of the action."""

    def of_actions(self) -> Surrogate:
        """Return the model of an f that depends on a perturbed action alone; raise if contexts matter to it."""


Capability = type[Any]
_T = TypeVar("_T")
_SUPPORTED: dict[tuple[type, Any], bool] = {}


def supports(model: object, capability: Callable[..., _T]) -> TypeGuard[_T]:
    """Return whether a posterior or a surrogate has all members of a capability, as `isinstance` would, but faster.

    The answer is the same for all objects of a class.
    """
    key = type(model), capability
    found = _SUPPORTED.get(key)
    if found is None:
        found = all(hasattr(model, name) for name in vars(capability) if not name.startswith("_"))
        _SUPPORTED[key] = found
    return found


def require(posterior: Posterior, capabilities: Sequence[Capability], who: str, surrogate: object) -> None:
    """Raise unless a posterior of the surrogate has all capabilities that somebody needs."""
    for capability in capabilities:
        if not supports(posterior, capability):
            what = (inspect.getdoc(capability) or "").splitlines()[0].rstrip(".")
            raise TypeError(
                f"{who} needs a surrogate with the capability {capability.__name__} ({what}), which {surrogate!r} lacks"
            )


def check_surrogate(surrogate: object) -> Surrogate:
    """Return a surrogate as it is; raise if anything of the contract is missing."""
    if isinstance(surrogate, type) or not isinstance(surrogate, Surrogate):
        members = ("learns", "certificate_width", "adapted", "first", "due", "refit", "posterior")
        missing = [name for name in members if not hasattr(surrogate, name)]
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        raise TypeError(
            f"surrogate must be a GP, a LearnedGP or another drbo.models.Surrogate, got {surrogate!r}{lacks}"
        )
    return surrogate


def of_action(posterior: Posterior, action: Point) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (n_contexts,) of f for one action."""
    if supports(posterior, SupportsGrid):
        return posterior.of_action(action)
    mean, variance = posterior.moments(action.coordinates[None, :])
    return mean[0], variance[0]


# --- what a search asks ---------------------------------------------------------------------------------------------


class Estimate(Protocol):
    """A function of action and context that stands for f, in the contexts of a round: a bound, or a draw."""

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f, the scale of the values."""

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the values of the actions `rows` of a grid, by default of all, in every context.

        `actions` (n_actions, d_x) is the grid, for an estimate that does not know it.
        """

    def of_action(self, action: Point) -> FloatArray:
        """Return the values of one action in every context, (n_contexts,)."""

    def at(self, actions: FloatArray) -> FloatArray:
        """Return the values at actions (m, d_x) anywhere, in every context, (m, n_contexts)."""

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
    """The curve of a posterior that predicts points and knows nothing of cells of contexts."""

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
        """Return -inf: nothing is known of what lies between points, so every point of a cell is looked at."""
        del halves, tilt
        return np.full(len(centres), -np.inf)


def curve_of(posterior: Posterior, action: FloatArray, slope: float) -> AnyCurve:
    """Return mean + slope std of f(x, .) for one action (d_x,), with bounds over cells if the posterior has them."""
    if supports(posterior, SupportsCurve):
        return posterior.curve(action, slope)
    return Pointwise(posterior, action, slope)
