"""One round of the game: nature's set around a reference, and the moves of both sides on a posterior.

    the action    x_t = argmax_x min_w <w, (mean + beta std)(x, .)>                     lines 3 and 4 of algorithm 1
    the context   c_t = argmax_c sigma_t(x_t, c), where the learner picks it            line 5 of algorithm 2
    the certificate   min_w <w, (mean - beta std)(x_t, .)>                              eq. 10

with w over the set: on the atoms of a finite set or of samples, or on a whole range of contexts.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from drbo.ambiguity import AmbiguitySet
from drbo.ambiguity.reference import Conditions
from drbo.models.bounds import lower_bound, upper_bound
from drbo.models.gp import GridPosterior
from drbo.models.units import one_thread
from drbo.rounds.box import Objective, best_in_box
from drbo.rounds.grid import TIE, best_action, first_of_the_best
from drbo.rounds.range import Refined, best_context, refine
from drbo.spaces.box import Box
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Found:
    """The action of the largest robust score.

    Attributes
    ----------
    point, index : the action in the model's coordinates, and its index in a finite set
    score : its robust score
    feasible : (k, n_contexts) distributions of the set that were met on the way
    """

    point: FloatArray
    index: int | None
    score: float
    feasible: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Game:
    """The set of one round: all distributions within `radius` of `reference` (n,), on contexts (n, d) or their range.

    `seed` is of the points that searches begin with.
    """

    conditions: Conditions
    contexts: FloatArray
    ambiguity: AmbiguitySet
    reference: FloatArray
    radius: float
    seed: int

    @classmethod
    def of(cls, conditions: Conditions, reference: FloatArray, radius: float, seed: int) -> Self:
        """Return the game on the atoms that the conditions have now."""
        return cls(conditions, conditions.atoms.points, conditions.ambiguity, reference, radius, seed)

    def best_on_grid(self, posterior: GridPosterior, beta: float, feasible: FloatArray | None) -> Found:
        """Return the best action of the posterior's grid; a negative beta is for the lower confidence bound.

        `feasible` : distributions known to lie in the set, which save work.
        """
        bounds = upper_bound(posterior, beta) if beta >= 0.0 else lower_bound(posterior, -beta)
        choice = best_action(bounds, self.ambiguity, self.reference, self.radius, feasible)
        i = choice.action_index
        return Found(posterior.actions[i], i, float(choice.worst_case.expectation), choice.visited)

    def best_in(self, box: Box, posterior: GridPosterior, beta: float, known: FloatArray, avoid: FloatArray) -> Found:
        """Return the best action found in a box, near `known` ones or not, but away from those to `avoid`."""
        objective = Objective(posterior, beta, self.ambiguity, self.reference, self.radius)
        with one_thread():
            x = best_in_box(box, objective, known, avoid, self.seed)
        return Found(x, None, float(objective.scores(x[None])[0]))

    def context(self, posterior: GridPosterior, found: Found, beta: float, informative: bool) -> tuple[FloatArray, int]:
        """Return the context of largest sigma_t(x_t, c), and its index among the atoms, -1 if it is none of them.

        Informative: that whose outcome lowers the variance of <w_t, f(x_t, .)> most, w_t the worst case of the lcb.
        """
        atoms, tie = self.contexts, TIE * posterior.gp.kernel.variance
        if found.index is not None and not informative and self.conditions.range is None:
            j = first_of_the_best(posterior.variance[found.index], tie)  # known on the whole grid
            return atoms[j], j
        curve = posterior.curve(found.point, -beta)
        worth = curve.variance
        if informative:
            w = self.ambiguity.worst_case(curve(atoms), self.reference, self.radius).weights
            worth = functools.partial(curve.information, atoms=atoms[w > 0.0], weights=w[w > 0.0])
            tie = math.sqrt(TIE) * float(worth(atoms).max())
        if self.conditions.range is not None:
            with one_thread():
                return best_context(worth, atoms, self.conditions.range, tie, self.seed), -1
        j = first_of_the_best(worth(atoms), tie)
        return atoms[j], j

    def worst_case(self, posterior: GridPosterior, found: Found, beta: float, *, certify: bool = True) -> Refined:
        """Return the worst case of mean + beta std for one action, with what it takes to show it."""
        box, family = self.conditions.range, self.conditions.family
        if box is not None:
            curve = posterior.curve(found.point, beta)
            with one_thread():
                return refine(
                    curve, self.contexts, self.reference, self.radius, box, family, self.seed, certify=certify
                )
        if found.index is not None and self.contexts is self.conditions.atoms.points:  # known on the whole grid
            values = posterior.mean[found.index] + beta * np.sqrt(posterior.variance[found.index])
        else:
            values = posterior.curve(found.point, beta)(self.contexts)
        worst = self.ambiguity.worst_case(values, self.reference, self.radius)
        return Refined(self.contexts[:0], worst, float(worst.lower_bound))
