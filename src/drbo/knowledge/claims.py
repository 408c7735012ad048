"""What is claimed, and by which theorem or measurement: one table for the printed text, the documents and the tests.

Three claims are never mixed:

1. The certificate: in every distribution of the set, the expected outcome of an action is at least so good. It is a
   theorem (Lemma 1) where everything that the confidence bound rests on was fixed before the outcomes were seen.
   Otherwise it is an estimate, whose coverage was measured.
2. Tomorrow: the distribution that conditions will follow lies in the set. That is the claim of the rule for the radius.
3. The regret: what the evaluations cost. Only this claim depends on who picks the context, and how.
"""

from __future__ import annotations

from dataclasses import dataclass

from drbo.ambiguity.contract import AmbiguitySet
from drbo.models.bounds import Beta
from drbo.models.surrogate import Surrogate
from drbo.rounds.policies import Policy
from drbo.rounds.settings import Setting

BREAKS_LEMMA_1 = (
    "Lemma 1 needs outcomes that arrive whatever they are: if an evaluation fails, or is told late or never, because "
    "of its outcome, no claim is left"
)
"""What the documents say of failures beside a certificate by theorem."""


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes
    ----------
    proven : whether a theorem says so
    source : the theorem, or the measurement
    text : the claim in words; `{beta}` and `{confidence}` stand for numbers
    """

    proven: bool
    source: str
    text: str


LEMMA_1 = Claim(
    True,
    "Lemma 1",
    "with probability {confidence:.3g}, for a reward whose norm does not exceed the bound given",
)
FIXED = Claim(
    False,
    "no theorem for a width that is a number",
    "an estimated bound of {beta:.3g} standard deviations; true as far as the kernel given is",
)
LEARNED = Claim(
    False,
    "measured, docs/evidence.md",
    "an estimated bound of {beta:.3g} standard deviations of a model that learned its hyper-parameters",
)
EVERYWHERE = Claim(
    False,
    "the union bound, for a model that is right; measured, docs/evidence.md",
    "estimated bounds of {beta:.3g} standard deviations, wide enough to hold in all contexts at once; true as far as "
    "the model is",
)
LEARNED_EVERYWHERE = Claim(
    False,
    "measured, docs/evidence.md",
    "estimated bounds of {beta:.3g} standard deviations of a model that learned its hyper-parameters, widened to hold "
    "in all contexts at once",
)
NORMAL_NOISE = Claim(
    False,
    "Lemma 1, if the noise is normal",
    "with probability {confidence:.3g}, for a reward whose norm does not exceed the bound given, and normal noise of "
    "the model's deviation",
)
REFUSED = (
    "beta must be a number for a surrogate that learns: TheoreticalBeta rests on a kernel, an offset, a scale and a "
    "noise that were fixed before the outcomes were seen. Give a GP with fixed hyper-parameters, or a number such as 2"
)


def certificate(surrogate: Surrogate, beta: Beta) -> Claim:
    """Return the claim of a certificate; it does not depend on setting, set, contexts or policy.

    A fixed GP with `TheoreticalBeta` has the bound of Lemma 1 for all actions, contexts and times at once. So it holds
    for the action that a search found, for the worst distribution of any set, and whoever picked the contexts.
    """
    if surrogate.learns and beta.proven:
        raise TypeError(REFUSED)
    if beta.proven:
        return LEMMA_1
    return LEARNED if surrogate.learns else FIXED


def everywhere(surrogate: Surrogate, beta: Beta, *, noisy: bool) -> Claim:
    """Return the claim of a probability or a quantile, whose bounds must hold in all contexts at once.

    Those of Lemma 1 hold for all actions, contexts and times. Others are widened for the contexts by the union bound.
    `noisy`: the outcome's, and not that of f, so that the distribution of the noise matters.
    """
    if not certificate(surrogate, beta).proven:
        return LEARNED_EVERYWHERE if surrogate.learns else EVERYWHERE
    return NORMAL_NOISE if noisy else LEMMA_1


def regret(
    surrogate: Surrogate, beta: Beta, setting: Setting, policy: Policy, ambiguity: AmbiguitySet, exact: bool
) -> Claim:
    """Return the claim about the cost of the evaluations; `exact`: whether actions and contexts are finite sets."""
    by_nature = ambiguity.has_shift_norm and setting.delta in (None, beta.delta)
    theorem = policy.theorem(setting.theorem if by_nature else None)
    if certificate(surrogate, beta).proven and exact and theorem is not None:
        return Claim(True, theorem, f"the robust regret of all rounds is bounded by {theorem}")
    return Claim(False, "none", "nothing is claimed about the regret")
