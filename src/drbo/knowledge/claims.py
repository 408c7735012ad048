"""The claims and their theorems or measurements: one table for the printed text, the documents and the tests.

Three claims are kept apart:

1. The bound: in every distribution of the set, the expected outcome of an action is at least this good. The bound is
   guaranteed (Lemma 1) if everything that its confidence bound depends on was fixed before the outcomes were seen.
   Otherwise it is estimated, and its coverage was measured.
2. Coverage: the set contains the distribution of future conditions. The radius rule makes this claim.
3. Regret: the cost of the evaluations. Only this claim depends on who picks the context, and how.
"""

from __future__ import annotations

from dataclasses import dataclass

from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.mmd import MMD
from drbo.models.bounds import Beta
from drbo.models.surrogate import SupportsAlternatives, Surrogate, supports
from drbo.rounds.policies import Policy
from drbo.rounds.settings import Setting

BREAKS_LEMMA_1 = (
    "Lemma 1 needs outcomes that arrive whatever they are: if an evaluation fails, or is told late or never, because "
    "of its outcome, no claim is left"
)
"""The caveat on failures that the documents print beside a guaranteed bound."""


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes
    ----------
    proven : whether a theorem proves the claim
    source : the theorem or the measurement
    text : the claim in words, with `{beta}` and `{confidence}` as placeholders
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
    "an estimate ({beta:.3g} standard deviations), valid if the given kernel is right",
)
LEARNED = Claim(
    False,
    "measured, docs/evidence.md",
    "an estimate ({beta:.3g} standard deviations of a fitted model), not a proof",
)
SEVERAL = Claim(
    False,
    "if f given the outcomes is Gaussian with the moments of one of the models, then for each distribution of the set; "
    "measured, docs/evidence.md",
    "an estimate (the worst of several fitted models, {beta:.3g} standard deviations each), not a proof",
)
EVERYWHERE = Claim(
    False,
    "the union bound, for a model that is right; measured, docs/evidence.md",
    "an estimate ({beta:.3g} standard deviations, to hold in all contexts at once), valid if the model is right",
)
LEARNED_EVERYWHERE = Claim(
    False,
    "measured, docs/evidence.md",
    "an estimate ({beta:.3g} standard deviations of a fitted model, to hold in all contexts at once), not a proof",
)
NORMAL_NOISE = Claim(
    False,
    "Lemma 1, if the noise is normal",
    "with probability {confidence:.3g}, for a reward whose norm does not exceed the bound given, and normal noise of "
    "the model's deviation",
)
MANY_OUTCOMES = (
    "searched with {inducing:,} inducing points; the bound rests on the {nearest:,} outcomes nearest to the action"
)
"""What is said of a bound above the limit of an exact posterior: fewer outcomes never make a deviation too small."""
FAILURES = "the bound holds if no evaluation failed because of its outcome"
"""What every bound assumes once an evaluation has failed."""
REFUSED = (
    "beta must be a number for a surrogate that learns: TheoreticalBeta rests on a kernel, an offset, a scale and a "
    "noise that were fixed before the outcomes were seen. Give a GP with fixed hyper-parameters, or a number such as 2"
)


def bound(surrogate: Surrogate, beta: Beta) -> Claim:
    """Return the claim of a bound; the claim does not depend on setting, set, contexts or policy.

    A fixed GP with `TheoreticalBeta` has the bound of Lemma 1 for all actions, contexts and times at once. The bound
    therefore holds for the action that a search found and for the worst distribution of any set.
    """
    if surrogate.learns and beta.proven:
        raise TypeError(REFUSED)
    if beta.proven:
        return LEMMA_1
    if not surrogate.learns:
        return FIXED
    return SEVERAL if supports(surrogate, SupportsAlternatives) else LEARNED


def everywhere(surrogate: Surrogate, beta: Beta, *, noisy: bool) -> Claim:
    """Return the claim of a probability or a quantile, whose confidence bounds must hold in all contexts at once.

    The bounds of Lemma 1 do. Other bounds are widened by the union bound over the contexts.
    `noisy`: the claim is about the outcome rather than f, so the distribution of the noise matters.
    """
    if not bound(surrogate, beta).proven:
        return LEARNED_EVERYWHERE if surrogate.learns else EVERYWHERE
    return NORMAL_NOISE if noisy else LEMMA_1


def regret(
    surrogate: Surrogate, beta: Beta, setting: Setting, policy: Policy, ambiguity: AmbiguitySet, exact: bool
) -> Claim:
    """Return the claim about the cost of the evaluations; `exact`: whether actions and contexts are finite sets."""
    by_nature = isinstance(ambiguity, MMD) and setting.delta in (None, beta.delta)
    theorem = policy.theorem(setting.theorem if by_nature else None)
    if bound(surrogate, beta).proven and exact and theorem is not None:
        return Claim(True, theorem, f"the robust regret of all rounds is bounded by {theorem}")
    return Claim(False, "none", "nothing is claimed about the regret")
