"""Policies: the choice of the next action and, where the learner picks it, of a context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np

from drbo._fast_record import fast_record
from drbo.contexts.nature import Contexts
from drbo.models.bounds import UPPER, AverageBound, Bound
from drbo.models.surrogate import Capability, Posterior, SupportsAverages, SupportsDraws
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs, ContextRule, Informative, check_rule
from drbo.rounds.floors import Limit
from drbo.rounds.limited_search import LimitedSearch
from drbo.rounds.repeats import NOTHING_TAKEN, Taken
from drbo.rounds.search import Indices, Search, Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["MeanEmbedding", "Optimism", "Policy", "Thompson"]

Reason = Literal["search", "verify", "limits"]
"""Why an evaluation was chosen: to find a better action, to check the recommended one, or because it comes closest to
meeting all limits where no action may meet them."""
MISJUDGED = 0.02
"""Loss of score by further contexts, as a share of the amplitude of f, from which an action is chosen again."""


NEAR = 0.05
"""An action is near another one up to this root mean square difference, in shares of the ranges."""


def rows_near(action: FloatArray, actions: FloatArray, ranges: FloatArray, distance: float = NEAR) -> Indices:
    """Return the rows of actions (k, d) that are near one (d,); `ranges` (d,) are those of the space."""
    apart = ((actions - action) / ranges) ** 2
    return np.flatnonzero(np.sqrt(apart.mean(axis=1)) <= distance)


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Where f was evaluated, and the size of the outcomes.

    Attributes
    ----------
    actions, contexts : (k, d_x) and (k, d_c), one row each
    ranges : (d_x,) of the actions
    lowest, spread : the lowest outcome, and the standard deviation of all outcomes, in the units of the model
    doubt : how bad conditions count in which an action was not tried: 1 is as bad as the lowest outcome, 0 as the model
        says
    """

    actions: FloatArray
    contexts: FloatArray
    ranges: FloatArray
    lowest: float = 0.0
    spread: float = 1.0
    doubt: float = 1.0

    def near(self, action: FloatArray, distance: float = NEAR) -> FloatArray:
        """Return the contexts (l, d_c) of the evaluations of an action (d_x,), or of one at most this far from it."""
        return np.asarray(self.contexts[rows_near(action, self.actions, self.ranges, distance)])


NO_EVALUATIONS = Evaluations(np.empty((0, 1)), np.empty((0, 1)), np.ones(1))


@fast_record
class Round:
    """The inputs of a policy in one round.

    Attributes
    ----------
    ball : the distributions that nature may choose from
    search : over the actions
    near : (k, d) starting points of a search over a box: the incumbent, and the last actions told
    under_way : (l, d) actions that are pending or failed
    n_contexts : the number of contexts to pick for the action, where the learner picks them
    seed : the seed of the optimizer, and the number of the suggestion
    taken : evaluations that are not chosen again
    evaluated : returns where an outcome was evaluated so far, pending evaluations included
    limits : the limits of outcomes; `search` is over the actions that may meet them
    deciding : the search over the actions that may be recommended, which are known to meet the limits; None if it is
        `search`
    approaching : the search over the actions that are likely to meet the limits; None if it is `search`
    """

    ball: Ball
    search: Search
    near: FloatArray
    under_way: FloatArray
    n_contexts: int = 1
    seed: tuple[int, int] = (0, 0)
    taken: Taken = NOTHING_TAKEN
    evaluated: Callable[[Beliefs], Evaluations] = lambda _: NO_EVALUATIONS
    limits: tuple[Limit, ...] = ()
    deciding: LimitedSearch | None = None
    approaching: LimitedSearch | None = None

    def away(self, rule: ContextRule | None) -> FloatArray:
        """Return the actions (k, d) not to repeat, for a rule that picks contexts, or None for nature.

        Two evaluations of one action may differ in their contexts, but only if the learner picks them.
        """
        return self.under_way if rule is None else self.under_way[:0]

    def generator(self) -> np.random.Generator:
        """Return a random generator, the same for every replay of this round."""
        return np.random.default_rng(self.seed)


@fast_record
class Choice:
    """The choice of a policy.

    Attributes
    ----------
    action : the action to evaluate
    context : the context to evaluate it in; None where nature picks it
    score : of the action, in the model's units
    ball : the ball of the round, with the contexts added by the search
    more_contexts : besides `context`, if the round needs several
    reason : why it was chosen
    """

    action: Point
    context: Point | None
    score: float
    ball: Ball
    more_contexts: tuple[Point, ...] = ()
    reason: Reason = "search"

    @property
    def contexts(self) -> tuple[Point, ...]:
        """All picked contexts; none where nature picks them."""
        return () if self.context is None else (self.context, *self.more_contexts)


class Policy(ABC):
    """A rule that chooses the next evaluation."""

    needs: ClassVar[tuple[Capability, ...]] = ()
    """The required capabilities of a posterior beyond the contract, such as `drbo.models.SupportsDraws`."""

    @property
    def rule(self) -> ContextRule | None:
        """The rule that picks further contexts for a chosen action; None where nature picks contexts."""
        return Informative()

    def theorem(self, by_nature: str | None) -> str | None:
        """Return the theorem that bounds the regret, or None.

        `by_nature` is the setting's theorem for the paper's policy with contexts picked by nature.
        """
        del by_nature
        return None

    def check(self, prior: Posterior, contexts: Contexts) -> None:  # noqa: B027  # most policies fit any model
        """Raise if the policy does not suit a model, given its posterior before any outcome.

        The posterior has the capabilities that the policy `needs`.
        """

    @abstractmethod
    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return the next evaluation."""


@dataclass(frozen=True)
class ActionFirst(Policy):
    """A policy that chooses the action first. A rule picks the context for it, or nature does.

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature does
    """

    contexts: ContextRule | None = None

    def __post_init__(self) -> None:
        check_rule(self.contexts)

    @property
    def rule(self) -> ContextRule | None:
        """The rule that picks contexts; None where nature does."""
        return self.contexts


@dataclass(frozen=True)
class Optimism(ActionFirst):
    """The policy of the paper: the action of the largest worst-case upper confidence bound (algorithms 1 and 2).

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature does
    """

    def theorem(self, by_nature: str | None) -> str | None:
        """Return the theorem of the setting where nature picks contexts, otherwise the theorem of the rule."""
        return by_nature if self.contexts is None else self.contexts.theorem

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x min_w <w, ucb_t(x, .)> and its contexts, each picked as if earlier ones were told."""
        ball, search = round.ball, round.search
        away = round.away(self.contexts)
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)
        found = search.best(ball, bound, round.near, away)
        if not ball.on_atoms:  # the adversary may need further contexts
            ball, score = ball.widened(Bound(beliefs.certain(ball), beliefs.width, UPPER), found.action, found.score)
            if found.score - score > MISJUDGED * bound.amplitude:
                found = search.best(ball, Bound(beliefs.expected(ball), beliefs.width, UPPER), round.near, away)
        return picked(self.contexts, round, beliefs, ball, found)


def picked(
    rule: ContextRule | None,
    round: Round,
    beliefs: Beliefs,
    ball: Ball,
    found: Winner,
    first: Point | None = None,
    reason: Reason = "search",
) -> Choice:
    """Return the choice of an action, with contexts picked by a rule, each as if earlier ones were told.

    Without a rule nature picks the context. `first` is the first context, if it has been picked already. A context in
    which the evaluation is taken is replaced. The rule picks contexts for the objective and for limits that are open.
    """
    if rule is None:
        return Choice(found.action, None, found.score, ball, reason=reason)
    action = found.action
    decide = [beliefs, *(limit.beliefs for limit in round.limits if limit.open(ball, action))]
    first = rule.pick_for(ball, decide, action) if first is None else first
    first = round.taken.instead(ball, beliefs, action, first)
    more: list[Point] = []
    while 1 + len(more) < round.n_contexts:
        known = [one.also(ball, action, (first, *more)) for one in decide]
        taken = round.taken.and_also(action, (first, *more))
        more.append(taken.instead(ball, known[0], action, rule.pick_for(ball, known, action)))
    return Choice(found.action, first, found.score, ball, tuple(more), reason)


@dataclass(frozen=True)
class MeanEmbedding(ActionFirst):
    """The action of the largest upper confidence bound of its expectation under the reference (mean-embedding UCB).

    x_t = argmax_x <p_t, mean_t(x, .)> + beta_t sqrt(p_t' Cov_t(x) p_t)

    with Cov_t(x) the posterior covariance of f(x, .) in all contexts and p_t the reference. The bound is on one number,
    the average of f over p_t, whose kernel is the mean embedding of p_t. This bound is never above the average of the
    upper bounds, which `Optimism` with the set `Expectation()` uses. The policy is for rounds with a known distribution
    of the context, and ignores the set of the round. The context is told afterwards, `tell(s, y, context=c)`, or never,
    `tell(s, y, distribution=s.reference)`. Kirschner and Krause, "Stochastic bandits with context distributions",
    NeurIPS 2019, bound the regret under p_t for both. There is no bound on the robust regret.

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature draws it
    """

    needs: ClassVar[tuple[Capability, ...]] = (SupportsAverages,)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return the action, and its contexts where a rule picks them."""
        bound = AverageBound.of(
            cast(SupportsAverages, beliefs.expected(round.ball)), round.ball.weights, beliefs.width, UPPER
        )
        found = round.search.best(round.ball, bound, round.near, round.away(self.contexts))
        return picked(self.contexts, round, beliefs, round.ball, found)


@dataclass(frozen=True)
class Thompson(ActionFirst):
    """Thompson sampling: one draw of f from its posterior, and the action with its largest worst-case expectation.

    Nguyen et al. (AISTATS 2020) use this posterior sampling for chi-square sets, and Tay et al. (AAAI 2024) on finite
    sets. Here it works for every set, with an exact search for the maximiser. Pending and failed evaluations count as
    if they had given their mean. Every suggestion has its own draw, from the optimizer's seed and the number of the
    suggestion.

    A draw is exact on finite sets of actions and contexts, of up to 2,048 points each. For actions of a box, contexts
    with a range, and perturbations of actions, a draw uses 512 random frequencies. On average over the frequencies it
    has the mean and covariance of the posterior (docs/draws.md has the error given them).

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature does
    """

    needs: ClassVar[tuple[Capability, ...]] = (SupportsDraws,)

    def check(self, prior: Posterior, contexts: Contexts) -> None:
        """Raise if draws need a spectral density that a kernel lacks."""
        cast(SupportsDraws, prior).check_draw(between=contexts.range is not None)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x min_w <w, f_t(x, .)> for a draw f_t of f, and its contexts."""
        ball, search, away = round.ball, round.search, round.away(self.contexts)
        draw = ball.draw_of(cast(SupportsDraws, beliefs.expected(ball)), round.generator())
        found = search.best(ball, draw, round.near, away)
        ball, score = ball.widened(draw, found.action, found.score)
        if found.score - score > MISJUDGED * draw.amplitude:
            found = search.best(ball, draw.on(ball.contexts), round.near, away)
        return picked(self.contexts, round, beliefs, ball, found)
