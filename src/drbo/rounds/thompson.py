"""Thompson sampling: the action that would be best if a draw of f from its posterior were f itself."""

from __future__ import annotations

from dataclasses import dataclass

from drbo.ambiguity.contexts import Contexts
from drbo.models.gp import GP
from drbo.rounds.beliefs import Beliefs
from drbo.rounds.policies import MISJUDGED, ActionFirst, Choice, Round, picked
from drbo.rounds.search import Search


@dataclass(frozen=True)
class Thompson(ActionFirst):
    """Thompson sampling: one draw of f from its posterior, and the action of its largest worst-case expectation.

    It is posterior sampling of Nguyen et al. (AISTATS 2020), there for chi-square sets, and of Tay et al. (AAAI 2024),
    there on finite sets; here for every set, and the maximiser is that of an exact search. Pending and failed
    evaluations count as if they had given their mean. Every suggestion has a draw of its own, a function of the
    optimizer's seed and the number of the suggestion.

    A draw is exact on finite sets of actions and contexts, of up to 2,048 points each. Along actions of a box, contexts
    with a range, and perturbations of actions it is made of 512 random frequencies: its mean and covariance are those
    of the posterior all the same, on average over the frequencies (docs/draws.md has the error given them).

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature does
    """

    def check(self, search: Search, gp: GP, contexts: Contexts) -> None:
        """Raise if a kernel has no spectral density where draws need it."""
        search.prior(gp, contexts.seen([]).points).check_draw(between=contexts.range is not None)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x min_w <w, f_t(x, .)> for a draw f_t of f, and its contexts."""
        ball, search, away = round.ball, round.search, round.away(self.contexts)
        draw = ball.draw_of(beliefs.expected(ball), round.generator())
        found = search.best(ball, draw, round.near, away)
        ball, score = ball.widened(draw, found.action, found.score)
        if found.score - score > MISJUDGED * draw.amplitude:
            found = search.best(ball, draw.on(ball.contexts), round.near, away)
        return picked(self.contexts, round, beliefs, ball, found)
