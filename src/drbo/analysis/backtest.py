"""The rewards that each radius would have earned in the past."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import require
from drbo.ambiguity.family import AmbiguitySet, SetOrFamily
from drbo.ambiguity.placed import PlacedSet
from drbo.analysis.profile import against_radius
from drbo.analysis.recommend import best_in
from drbo.contexts.nature import Indices, empirical
from drbo.contexts.sampled_contexts import contexts_of
from drbo.knowledge.belief import MANY
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.state import Terms
from drbo.knowledge.telling import in_order
from drbo.models.bounds import LOWER, Bound
from drbo.rounds.grid_search import best_action
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["backtest"]

Reward = Callable[[Any, Any], float]
"""A known f that maps an action and a context to a reward."""


@dataclass(frozen=True)
class Backtest:
    """The rewards that each radius would have earned on past data.

    Attributes
    ----------
    radii : (k,) the radii tried
    actions : (k, m) the index of the chosen action per radius and per step after the first window
    rewards : (k, m) the rewards, in the user's units
    candidates : the actions to choose from, in the user's form; empty if the values came as a matrix
    maximize : whether rewards are maximised; otherwise they are costs
    """

    radii: FloatArray
    actions: Indices
    rewards: FloatArray
    candidates: tuple[Any, ...] = ()
    maximize: bool = True

    @property
    def revenue(self) -> FloatArray:
        """The total reward of each radius, (k,)."""
        return np.asarray(self.rewards.sum(axis=1))

    @property
    def worst(self) -> FloatArray:
        """The worst step of each radius, (k,)."""
        return np.asarray(self.rewards.min(axis=1) if self.maximize else self.rewards.max(axis=1))

    @property
    def best_radius(self) -> float:
        """The radius of the largest revenue (the smallest total cost); the smallest radius wins ties."""
        total = self.revenue if self.maximize else -self.revenue
        return float(self.radii[np.lexsort((self.radii, -total))[0]])

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per radius: the total, the mean and the worst step, and the number of distinct actions."""
        used = [len(np.unique(row)) for row in self.actions]
        columns = (self.radii.tolist(), self.revenue.tolist(), self.rewards.mean(axis=1).tolist(), self.worst.tolist())
        names = ("radius", "revenue", "mean", "worst", "actions_used")
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, used, strict=True)]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per radius."""
        return require("pandas", "frame").DataFrame.from_records(self.rows())

    def plot(self) -> Figure:
        """Return a matplotlib figure: the mean and the worst step against the radius."""
        panels = {"Mean step": {"mean": self.rewards.mean(axis=1)}, "Worst step": {"worst": self.worst}}
        return against_radius(self.radii, panels, None)


def backtest(
    values: ArrayLike | Reward,
    ambiguity: SetOrFamily,
    seen: ArrayLike | Samples,
    radii: ArrayLike,
    window: int,
    rewards: ArrayLike | None = None,
    *,
    actions: Sequence[Any] | None = None,
) -> Backtest:
    """Return the past rewards of each radius: every step takes the best robust action for the window before it.

    `opt.under().backtest(radii, window)` does the same with the posterior of an optimizer.

    Parameters
    ----------
    values : (n_actions, n_contexts) f, known or learned (a posterior mean); or f itself, called as f(action, context)
        for each of `actions` and each of the samples
    ambiguity : the family of sets
    seen : (t,) indices of past contexts, oldest first; or their `Samples`, if `values` is a function
    radii : (k,) the radii to try
    window : number of contexts in the reference of a step
    rewards : (t, n_actions) the reward of every action in each step; the default is its value in the context seen
    actions : the actions to choose from, if `values` is a function
    """
    if callable(values):
        return _of_samples(values, ambiguity, seen, radii, window, rewards, actions)
    if actions is not None or isinstance(seen, Samples):
        raise TypeError("values must be a function f(action, context) where actions or Samples are given")
    return _replayed(validation.finite_array("values", values, ndim=2), ambiguity, seen, radii, window, rewards)


def _of_samples(
    f: Reward,
    ambiguity: SetOrFamily,
    samples: Any,
    radii: ArrayLike,
    window: int,
    rewards: ArrayLike | None,
    actions: Sequence[Any] | None,
) -> Backtest:
    """Return the backtest of a function on samples."""
    if not isinstance(samples, Samples):
        raise TypeError(f"seen must be Samples where values is a function, got {type(samples).__name__}")
    if actions is None or not len(actions):
        raise TypeError("actions is missing: if values is a function, give the actions to choose from")
    if not isinstance(ambiguity, AmbiguitySet):
        wanted = "a family such as drbo.MMD(kernel=...) where values is a function"
        raise TypeError(f"ambiguity must be {wanted}, got {ambiguity!r}")
    family = ambiguity.with_columns(samples.space.columns)
    contexts = contexts_of(samples, family)
    reference, space = contexts.seen([]), contexts.space
    placed = family.on(space.measured(reference.points), space.scales)
    atoms = contexts.decode_all(reference)
    known = validation.finite_array("values", [[f(action, c) for c in atoms] for action in actions], ndim=2)
    made = _replayed(known, placed, reference.history, radii, window, rewards)
    return Backtest(made.radii, made.actions, made.rewards, tuple(actions))


def _replayed(
    f: FloatArray,
    ambiguity: SetOrFamily,
    seen: ArrayLike,
    radii: ArrayLike,
    window: int,
    rewards: ArrayLike | None,
) -> Backtest:
    """Return the backtest of values (n_actions, n_contexts) and indices (t,)."""
    validation.of_kind("ambiguity", ambiguity, (AmbiguitySet, PlacedSet), "an ambiguity set")
    indices = validation.indices("seen", seen)
    window = validation.whole_number("window", window, least=1)
    tried = validation.radii(radii)
    if not 1 <= window < len(indices):
        raise ValueError(f"window must be from 1 to {len(indices) - 1}, one less than the contexts seen, got {window}")
    if not 0 <= indices.min() <= indices.max() < f.shape[1]:
        raise ValueError(f"seen must hold indices from 0 to {f.shape[1] - 1}")
    earned = f[:, indices].T if rewards is None else validation.finite_array("rewards", rewards, ndim=2)
    if earned.shape != (len(indices), len(f)):
        raise ValueError(f"rewards must have shape ({len(indices)}, {len(f)}), got {earned.shape}")
    steps = np.arange(window, len(indices))
    actions = np.empty((len(tried), len(steps)), dtype=np.intp)
    for column, t in enumerate(steps):
        reference = empirical(indices[t - window : t], f.shape[1])
        for row, eps in enumerate(tried):
            actions[row, column] = best_action(f, ambiguity, reference, float(eps)).action_index
    return Backtest(tried, actions, earned[steps, actions])


SPREAD = 128
"""Number of well-spread candidates of a box, besides the evaluated and the recommended actions."""


def backtest_known(asked: Snapshot, radii: ArrayLike, window: int, past: Any, actions: Any) -> Backtest:
    """Return the past rewards of each radius under the posterior of a snapshot.

    Each step chooses by the lower confidence bound of a recommendation, and earns the posterior mean in the context
    that occurred.
    """
    asked.need_outcome("backtest")
    known, own = asked.known, asked.configuration
    points, days = _past(asked, past)
    candidates = _candidates(asked, radii, actions)
    ambiguity = own.ambiguity.on(own.nature.space.measured(points), own.nature.space.scales)
    belief = known.belief(asked.state, points, fresh=True)
    coordinates = asked.rows(candidates)
    models = known.models(asked.state, OBJECTIVE, belief.fit, points) if belief.fit.n_outcomes < MANY else ()
    others = tuple(one.certain for one in models)
    lower = Bound(belief.certain, known.bound_width(asked.state, belief), LOWER, others=others).at(coordinates)
    mean = Bound(belief.certain, 0.0, LOWER).at(coordinates)
    made = _replayed(lower, ambiguity, days, radii, window, mean[:, days].T)
    stated = np.vectorize(belief.units.stated, otypes=[float])
    decoded = tuple(asked.actions.decode(point) for point in candidates)
    return Backtest(made.radii, made.actions, stated(made.rewards), decoded, own.maximize)


def _past(asked: Snapshot, past: Any) -> tuple[FloatArray, Indices]:
    """Return contexts (n, d), and the indices (t,) of those that occurred, oldest first."""
    own = asked.configuration
    reference = own.nature.seen(asked.state.seen)
    if past is None:
        days = own.setting.past if len(own.setting.past) else reference.history
        if not len(days):
            raise ValueError("past is missing: this optimizer has seen no contexts in the order of time")
        return reference.points, days
    came = in_order("past", past, own.nature)
    if not came:
        raise ValueError("past must hold contexts in the order of time, got none")
    listed = reference.index is not None and not len(reference.represented)
    if listed and all(point.index is not None for point in came):
        return reference.points, np.array([point.index for point in came], dtype=np.intp)
    every = np.concatenate([reference.points, [point.coordinates for point in came]])
    points, inverse = np.unique(every, axis=0, return_inverse=True)
    return points, np.asarray(inverse.ravel()[len(reference.points) :], dtype=np.intp)


def _candidates(asked: Snapshot, radii: ArrayLike, actions: Any) -> list[Point]:
    """Return the actions to choose from: the given ones, all of a finite set, or a spread of a box.

    The spread holds well-spread actions, the evaluated ones, and the present recommendation for each radius.
    """
    own, space = asked.configuration, asked.actions
    if own.limits:
        raise TypeError(
            "backtest compares radii by the objective alone, so it does not work for an optimizer with limits"
        )
    if actions is not None:
        validation.of_kind("actions", actions, Iterable, "a sequence of actions")
        return [space.encode(f"actions[{i}]", one) for i, one in enumerate(actions)]
    every = own.actions.spread(SPREAD, own.seed)
    if every[0].index is not None:
        return every
    tried_before = (record.action for record in asked.state.told_so_far if own.search.permits(record.action))
    told = {point.coordinates.tobytes(): point for point in tried_before}
    whole = replace(asked, terms=Terms(asked.terms.reference))  # the past covers all contexts
    tried = np.unique(validation.radii(radii)).tolist()
    best = [best_in(whole, whole.ball_at(radius)).action for radius in tried]
    return [*best, *told.values(), *every]
