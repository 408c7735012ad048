"""What f is a function of: an action and a context, or the action with a perturbation of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbo.models.gp import GP
from drbo.models.grid import GridPosterior
from drbo.models.learned import LearnedGP
from drbo.models.outcomes import Outcomes
from drbo.models.perturbed import PerturbedPosterior
from drbo.models.posterior import AnyPosterior
from drbo.models.regression import Posterior
from drbo.spaces.space import Shift
from drbo.validation import FloatArray


class Inputs:
    """f(x, c): the model has a kernel of actions and one of contexts."""

    def adapted(self, model: GP | LearnedGP) -> GP | LearnedGP:
        """Return the model as it is fitted; raise if it is for another kind of f."""
        return model

    def d_context(self, d_c: int) -> int:
        """Return how many coordinates of contexts of d_c coordinates the context kernel sees."""
        return d_c

    def on_grid(self, gp: GP, actions: FloatArray, contexts: FloatArray) -> AnyPosterior:
        """Return the posterior of no observation on actions (n_actions, d_x) and contexts (n, d_c)."""
        return GridPosterior(gp, actions, contexts)

    def anywhere(self, gp: GP, d_x: int, contexts: FloatArray) -> AnyPosterior:
        """Return the posterior of no observation for actions of d_x coordinates, on contexts (n, d_c)."""
        return Posterior(gp, np.empty((0, d_x)), contexts)

    def seen(self, outcomes: Outcomes) -> Outcomes:
        """Return outcomes at what the kernels see."""
        return outcomes


PAIRS = Inputs()


@dataclass(frozen=True, eq=False)
class PerturbedInputs(Inputs):
    """f(x + xi): the model has a kernel of actions alone."""

    shift: Shift

    def adapted(self, model: GP | LearnedGP) -> GP | LearnedGP:
        """Return the model without a kernel of contexts; raise if it was given one."""
        return model.of_actions()

    def d_context(self, d_c: int) -> int:
        """Return 0: the context moves the action, and is no argument of its own."""
        del d_c
        return 0

    def on_grid(self, gp: GP, actions: FloatArray, contexts: FloatArray) -> AnyPosterior:
        """Return the posterior of no observation on actions (n_actions, d_x) and perturbations (n, d_c)."""
        return PerturbedPosterior(gp, self.shift, actions, contexts)

    def anywhere(self, gp: GP, d_x: int, contexts: FloatArray) -> AnyPosterior:
        """Return the posterior of no observation for actions of d_x coordinates, on perturbations (n, d_c)."""
        return PerturbedPosterior(gp, self.shift, np.empty((0, d_x)), contexts)

    def seen(self, outcomes: Outcomes) -> Outcomes:
        """Return outcomes at their places x + xi, in no context."""
        places = outcomes.x + self.shift.steps(outcomes.c)
        nothing = np.empty((len(places), 0))
        return Outcomes(places, nothing, outcomes.y, outcomes.stderr, outcomes.evaluation)
