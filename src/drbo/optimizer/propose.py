"""One suggestion: what an `ask` does once its arguments are read."""

from __future__ import annotations

from collections.abc import Sequence

from drbo import validation
from drbo.models.bounds import LOWER, Bound
from drbo.optimizer.history import Proposal
from drbo.optimizer.knowledge import Knowledge
from drbo.optimizer.production import Wishes
from drbo.optimizer.state import Terms
from drbo.rounds.ball import frozen_copy
from drbo.rounds.policies import Round
from drbo.rounds.repeats import Avoiding, Failures


def propose(known: Knowledge, terms: Terms, before: Sequence[Proposal], wishes: Wishes, n_contexts: int) -> Proposal:
    """Return the next suggestion, with those `before` it in the same call under way."""
    own, state = known.configuration, known.state
    ball = known.ball(state, terms, before)
    under_way = [*state.pending.values(), *(state.iterate(p, terms) for p in before)]
    beliefs = known.beliefs(state, ball, under_way, fresh=wishes.fresh)
    away = known.rows([*state.under_way, *(p.action for p in before)])
    limits = wishes.limits(state, beliefs, ball, before, own.search)
    number = state.n_asked + len(before)
    failures = Failures(state.failed_pairs)
    exhausted, search = failures.exhausted(ball), limits.search(own.search)
    if exhausted:
        search = Avoiding(search, exhausted)
    round_ = Round(ball, search, known.near(state), away, n_contexts, (own.seed, number), failures)
    choice = own.policy.choose(round_, beliefs)
    if n_contexts > 1 and len(choice.contexts) != n_contexts:
        raise TypeError(
            f"n_contexts must be 1 where the policy does not pick several contexts, got {n_contexts}; contexts "
            "that nature picks are told with the outcomes: tell(s, outcomes, contexts=...)"
        )
    # Eq. (10): the worst-case lcb at its own time, of outcomes alone: nothing pending counts.
    lower = Bound(beliefs.certain(choice.ball), beliefs.width, LOWER)
    worst = choice.ball.worst_case(lower.of_action(choice.action))
    wider, _ = choice.ball.widened(lower, choice.action, float(worst.expectation))
    units = beliefs.belief.units
    return Proposal(
        number=number,
        action=frozen_copy(choice.action),
        context=None if choice.context is None else frozen_copy(choice.context),
        radius=ball.radius,
        score=units.outward(choice.score),
        guarantee=units.outward(float(worst.lower_bound)),
        further=validation.frozen(wider.contexts[len(ball.contexts) :]),
        loss=limits.loss(choice.ball, choice.action),
        fallback=limits.fallback(choice.ball, choice.action),
        more_contexts=tuple(frozen_copy(context) for context in choice.more_contexts),
    )
