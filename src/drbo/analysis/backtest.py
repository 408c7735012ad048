"""What each radius would have earned in the past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet
from drbo.ambiguity.reference import Indices, empirical
from drbo.rounds.grid import best_action
from drbo.validation import FloatArray


@dataclass(frozen=True)
class Backtest:
    """What each radius would have earned on past data.

    Attributes
    ----------
    radii : (k,) the radii tried
    actions : (k, m) the action that each would have chosen in each of the m steps after the first window
    rewards : (k, m) what it would have earned
    """

    radii: FloatArray
    actions: Indices
    rewards: FloatArray

    @property
    def revenue(self) -> FloatArray:
        """The total that each radius would have earned, (k,)."""
        return np.asarray(self.rewards.sum(axis=1))

    @property
    def best_radius(self) -> float:
        """The radius of the largest revenue, the smallest of them if several tie."""
        return float(self.radii[np.argmax(self.revenue)])


def backtest(
    values: ArrayLike,
    ambiguity: AmbiguitySet,
    seen: ArrayLike,
    radii: ArrayLike,
    window: int,
    rewards: ArrayLike | None = None,
) -> Backtest:
    """Return what each radius would have earned: at every step, the best robust action for the window before it.

    Parameters
    ----------
    values : (n_actions, n_contexts) f, known or learned (a posterior mean)
    ambiguity : the family of sets
    seen : (t,) indices of past contexts in the order of time
    radii : (k,) the radii to try
    window : how many contexts make up the reference of a step
    rewards : (t, n_actions) what every action earned in each step; by default its value in the context seen
    """
    f = validation.finite_array("values", values, ndim=2)
    indices = np.asarray(seen)
    window = validation.whole_number("window", window, least=1)
    if np.size(radii) == 0:
        raise ValueError("radii must hold at least one radius, got none")
    tried = np.array([validation.radius(r, "radii") for r in np.atleast_1d(np.asarray(radii, dtype=float))])
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"seen must be a flat sequence of context indices, got {seen!r}")
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
