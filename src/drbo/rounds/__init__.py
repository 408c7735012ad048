"""One round: the ball that nature chooses from, who gives it, and what to evaluate next."""

from drbo.rounds.context_rules import Beliefs, ContextRule
from drbo.rounds.policies import Choice, Round
from drbo.rounds.search import Candidates, Winner

__all__ = ["Beliefs", "Candidates", "Choice", "ContextRule", "Round", "Winner"]
