"""What has been told, and the posterior of it: the part of an optimizer that learns.

Everything here is in the coordinates of the model and with the sign that we maximise. Learned models see standardised
outcomes; `in_outcomes` leads back.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.models.gp import GP, GridPosterior
from drbo.models.learned import FittedGP, LearnedGP, should_refit
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Observation:
    """One result; no outcome: it failed.

    `context_index` counts in a finite set of contexts, and is -1 otherwise. `seen`: whether the context was observed;
    that of a failed evaluation may be our guess. `number`: of the suggestion that it answers, None if nobody asked.
    """

    action: FloatArray
    context: FloatArray
    context_index: int
    outcome: float | None
    seen: bool
    number: int | None = None


class Model:
    """The observations, the hyper-parameters learned from them, and the posterior.

    Attributes
    ----------
    observations : in the order in which they were told
    fit : the model with its present hyper-parameters, and how outcomes are standardised
    fitted_at : how many outcomes these were learned from
    """

    def __init__(self, surrogate: GP | LearnedGP, actions: FloatArray, contexts: FloatArray) -> None:
        """`actions` (n, d_x) is the grid of actions, with no row if they may lie anywhere; `contexts` (m, d_c)."""
        self.surrogate = surrogate
        self.observations: list[Observation] = []
        self.fitted_at = 0
        self._actions = actions
        if isinstance(surrogate, GP):
            self.fit = FittedGP(surrogate, 0.0, 1.0, 0.0)
        else:
            self.fit = surrogate.fit(np.zeros((1, actions.shape[1])), np.zeros((1, contexts.shape[1])), [0.0])
        self.place(contexts)

    def place(self, contexts: FloatArray) -> None:
        """Make the posterior anew on contexts (m, d_c), of all observations in the order in which they were told."""
        gp = self.fit.gp
        if len(self._actions):
            posterior = gp.prior(self._actions, contexts)
        else:
            posterior = gp.prior_off_grid(self._actions.shape[1], contexts)
        for observation in self.observations:
            self._teach(posterior, observation)
        self._posterior = posterior  # as a whole or not at all, also after an interrupt
        self._in_doubt = False

    def tell(self, observation: Observation) -> None:
        """Take in one more observation. An interrupt leaves all of it or nothing: the observations decide."""
        posterior = self.posterior
        self._in_doubt = True
        self._teach(posterior, observation)
        self.observations.append(observation)
        self._in_doubt = False

    @property
    def posterior(self) -> GridPosterior:
        """The posterior of all observations on the contexts given last, made anew where an interrupt left a part."""
        if self._in_doubt:
            self.place(self._posterior.contexts)
        return self._posterior

    @property
    def consistent(self) -> bool:
        """Whether the posterior is that of the present hyper-parameters and observations; not so after an interrupt."""
        return self.posterior.gp is self.fit.gp and self.posterior.n_observations == len(self.observations)

    def refit(self) -> None:
        """Learn the hyper-parameters anew if there is enough more to learn from.

        The posterior is then that of the old ones until `place` is called.
        """
        told = [o for o in self.observations if o.outcome is not None]
        if not isinstance(self.surrogate, LearnedGP) or not should_refit(len(told), self.fitted_at):
            return
        x, c, y = (np.array(column) for column in zip(*((o.action, o.context, o.outcome) for o in told), strict=True))
        with one_thread():
            self.fit = self.surrogate.fit(x, c, y, self.fit if self.fitted_at >= 3 else None)
        self.fitted_at = len(told)

    def in_outcomes(self, value: float) -> float:
        """Return a value of the posterior in the units of the outcomes; infinite as long as their scale is unknown."""
        if isinstance(self.surrogate, LearnedGP) and self.fitted_at == 0:
            return math.copysign(math.inf, value)
        return self.fit.offset + self.fit.scale * value

    def _teach(self, posterior: GridPosterior, o: Observation) -> None:
        """Show an observation to a posterior; a failed one counts as under way for ever, and is not repeated."""
        if o.outcome is None:
            posterior.anticipate(o.action, o.context)
        else:
            posterior.observe(o.action, o.context, (o.outcome - self.fit.offset) / self.fit.scale)


def one_thread() -> Any:
    """Return a context in which linear algebra uses one thread: on matrices of a few hundred rows more only wait."""
    return _threads().limit(limits=1, user_api="blas")


@functools.cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
