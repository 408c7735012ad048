"""One suggestion: the round, what is permitted in it, the choice of the policy, and the suggestion as users see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drbo import validation
from drbo.contexts.nature import Reference
from drbo.knowledge.belief import RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Proposal
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.production import Wishes
from drbo.knowledge.state import Iterate, State, Terms
from drbo.knowledge.suggestion import Suggestion
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.surrogate import Fit, Posterior
from drbo.rounds.ball import frozen_copy
from drbo.rounds.chance import check_atoms
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.floors import View
from drbo.rounds.policies import Choice, Evaluations, Policy, Round
from drbo.rounds.repeats import DETERMINISTIC, NO_ERROR, Avoiding, Taken
from drbo.rounds.working import LIKELY, SuccessChances, Working
from drbo.spaces.space import Point

_MOST_NEW = 8
"""Largest number of dimensions that count for the number of first outcomes of an unknown part."""
_REPEATS = 4
"""Largest number of actions that are left out because their evaluation would be repeated."""


def propose(
    known: Knowledge,
    state: State,
    fits: Mapping[str, Fit],
    terms: Terms,
    bare: Reference,
    before: Sequence[Iterate],
    wishes: Wishes,
    n_contexts: int,
) -> Iterate:
    """Return the next suggestion of a round with the reference `bare`; those `before` it in one call are pending."""
    own, ball = known.configuration, known.ball(state, terms, bare, before)
    under_way = [*state.pending.values(), *before]
    beliefs = known.beliefs(state, ball, fits, under_way)
    objective, limits = beliefs[OBJECTIVE], own.in_round(beliefs.__getitem__) if own.limits else ()
    if own.limits and any(limit.probability is not None for limit in own.limits.values()):
        check_atoms(ball)
    permission = wishes.permission(state, objective, limits, ball, before, own.search)
    number = state.n_asked + len(before)
    chances = known.chances(state, ball.reference) if state.n_failed else None
    taken = _taken(own, state, under_way, objective.belief.certain, chances)
    search = own.search if permission is None else permission.search(own.search)
    search = search if chances is None else Working(search, chances, LIKELY * chances.best)
    if taken.failed or taken.pending:
        search = taken.avoiding(search, ball)
    busy = list(state.failed.values())
    for iterate in under_way:
        busy.append(iterate.proposal.action)

    def evaluated(some: Beliefs) -> Evaluations:
        return known.evaluations(state, some.name, some.units, under_way)

    round_ = Round(
        ball,
        search,
        known.near(state),
        known.rows(busy),
        n_contexts,
        (own.seed, number),
        taken,
        evaluated,
        limits,
        None if permission is None else permission.inside(own.search, View.CHECKED),
        None if permission is None else permission.inside(own.search, View.APPROACHED),
    )
    choosing = objective.of_the_unknown() if objective.belief.outcome.known and _is_new(own, state) else objective
    choice = own.policy.choose(round_, choosing)
    if taken.told and wishes.action is None:
        choice = _new(own.policy, round_, choosing, choice)
    if choosing is not objective:
        upper = Bound(objective.expected(choice.ball), objective.width, UPPER)
        score = float(choice.ball.worst_case(upper.of_action(choice.action)).expectation)
        choice = replace(choice, score=score)
    if n_contexts > 1 and len(choice.contexts) != n_contexts:
        raise TypeError(
            f"n_contexts must be 1 where the policy does not pick several contexts, got {n_contexts}; contexts "
            "that nature picks are told with the outcomes: tell(s, outcomes, contexts=...)"
        )
    # Eq. (10): the worst-case lcb at the time of the ask, from outcomes alone, without pending evaluations.
    lower = Bound(objective.certain(choice.ball), objective.width, LOWER)
    worst = choice.ball.worst_case(lower.of_action(choice.action))
    wider = choice.ball
    if not wider.on_atoms:
        wider, _ = wider.widened(lower, choice.action, float(worst.expectation))
        for limit in limits:  # each has its own adversary
            one = Bound(limit.beliefs.certain(wider), limit.beliefs.width, LOWER)
            wider, _ = wider.widened(one, choice.action, 0.0)
    units, further = objective.belief.units, wider.contexts[len(ball.contexts) :]
    loss, fallback, reason = 0.0, False, choice.reason
    if permission is not None:
        loss = permission.loss(choice.ball, choice.action)
        fallback = permission.fallback(choice.ball, choice.action)
        reason = "limits" if permission.out_of_reach(choice.ball, choice.action) else reason
    proposal = Proposal(
        number=number,
        action=frozen_copy(choice.action),
        context=None if choice.context is None else frozen_copy(choice.context),
        radius=ball.radius,
        score=units.outward(choice.score),
        bound=units.outward(float(worst.lower_bound)),
        further=validation.frozen(further) if len(further) else further,
        loss=loss,
        fallback=fallback,
        more_contexts=tuple(map(frozen_copy, choice.more_contexts)),
        reason=reason,
    )
    return Iterate(proposal, terms.reference, terms.given, state.seen, len(state.seen))


def _is_new(own: Configuration, state: State) -> bool:
    """Return whether the unknown part of the outcome is explored alone, because the model cannot know its size yet.

    Otherwise a large known part would decide where the unknown part is seen first, and the model would learn from there
    that it hardly varies.
    """
    return own.surrogate.learns and state.counts[OBJECTIVE] < min(own.search.space.dimension, _MOST_NEW) + 2


def _taken(
    own: Configuration, state: State, under_way: Sequence[Iterate], posterior: Posterior, chances: SuccessChances | None
) -> Taken:
    """Return the evaluations not to repeat: failed, pending and, if outcomes are nearly deterministic, told ones.

    Failures by accident may be repeated.
    """
    pending: list[tuple[Point, Point]] = []
    for one in under_way:
        pending += [(one.proposal.action, context) for context in one.proposal.contexts]
    share = DETERMINISTIC if own.surrogate.learns else NO_ERROR
    certain = state.counts[OBJECTIVE] and posterior.noise <= share * posterior.amplitude
    failed = () if chances is None or chances.model.by_accident else state.failed_pairs
    return Taken(failed, pending, state.evaluated(of=OBJECTIVE) if certain else (), chances)


def _new(policy: Policy, round_: Round, beliefs: RoundBeliefs, choice: Choice) -> Choice:
    """Return the choice or, if it repeats an evaluation, another one.

    If nature picks contexts, an evaluation may be a day of production. So the other action must be possibly better.
    """
    repeated: list[Point] = []
    found = choice
    while round_.taken.repeats(found.ball, found.action, found.contexts) and len(repeated) < _REPEATS:
        repeated.append(found.action)
        found = policy.choose(replace(round_, search=Avoiding(round_.search, repeated)), beliefs)
    if found is choice or round_.taken.repeats(found.ball, found.action, found.contexts):
        return choice
    if found.contexts:
        return found
    upper = Bound(beliefs.certain(found.ball), beliefs.width, UPPER)
    lower = Bound(beliefs.certain(choice.ball), beliefs.width, LOWER)
    most = found.ball.worst_case(upper.of_action(found.action)).expectation
    return found if most > choice.ball.worst_case(lower.of_action(choice.action)).lower_bound else choice


def suggestion_of(own: Configuration, iterate: Iterate, reference: Reference) -> Suggestion:
    """Return a suggestion in the user's units; `reference` is that of its round."""
    proposal = iterate.proposal
    contexts = proposal.contexts
    keys = tuple(map(own.nature.space.key, contexts))
    return Suggestion(
        number=proposal.number,
        action=own.search.space.decode(proposal.action),
        action_index=proposal.action.index,
        contexts=tuple(map(own.nature.space.decode, contexts)),
        reference=reference.weights,
        radius=proposal.radius,
        score=proposal.score,
        action_point=proposal.action,
        context_points=contexts,
        fallback=proposal.fallback,
        loss=proposal.loss,
        given=iterate.given,
        reason=proposal.reason,
        keys=() if None in keys else keys,
    )
