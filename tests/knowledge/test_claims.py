"""What is claimed: every combination that the constructor accepts, what it prints, and what the documents say of it."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    Box,
    ChiSquare,
    CVaR,
    DataDriven,
    Expectation,
    General,
    Informative,
    LearnedGP,
    Neighbourhood,
    Optimism,
    Optimizer,
    Product,
    Samples,
    Simulator,
    TheoreticalBeta,
    Thompson,
    TotalVariation,
    Uncertain,
    Wasserstein,
)
from drbo.knowledge import claims

ROOT = Path(__file__).parents[2]
KERNEL = Product(RBF(0.3), RBF(0.3))
SURROGATES: list[Any] = [GP(KERNEL, 0.1), GP(KERNEL, 0.1, offset=5.0, scale=3.0), LearnedGP(), LearnedGP(noise=0.1)]
BETAS: list[Any] = [2.0, TheoreticalBeta(bound=1.0, noise=0.1)]
SETTINGS = ["general", "data-driven", "data-driven, a radius of 0.1", "simulator"]
SETS = [MMD(), TotalVariation(), KL(), ChiSquare(), CVaR(), Wasserstein(), Expectation(), Neighbourhood()]
POINTS = np.linspace(0.0, 1.0, 4)
CONTEXTS: dict[str, Any] = {
    "finite": POINTS,
    "samples": Samples(POINTS[:, None], support=2),
    "range": Box(c=(0.0, 1.0)),
}
POLICIES: list[Any] = [None, Optimism(), Optimism(Uncertain()), Optimism(Informative()), Thompson(Uncertain())]


def words_of(r: drbo.analysis.Recommendation) -> str:
    """Return what is printed of a recommendation, in one line."""
    return " ".join(str(r).split())


def _pick(policy: Any) -> Any:
    return None if policy else "uncertain"


def make(surrogate: Any, beta: Any, setting: str, ambiguity: Any, contexts: str, policy: Any) -> Optimizer:
    finite, pick = contexts == "finite", _pick(policy)
    made: dict[str, Any] = {
        "general": General(),
        "data-driven": DataDriven(),
        "data-driven, a radius of 0.1": DataDriven(radius=0.1),
        "simulator": Simulator(np.full(4, 0.25) if finite else None, 0.1, pick=pick),
    }
    return Optimizer(
        POINTS,
        CONTEXTS[contexts],
        ambiguity=ambiguity,
        setting=made[setting],
        surrogate=surrogate,
        beta=beta,
        policy=policy,
    )


def given(setting: str, contexts: str) -> dict[str, Any]:
    if setting != "general":
        return {}
    return {"reference": np.full(4, 0.25) if contexts == "finite" else Samples([[0.2], [0.6]], **_within(contexts))}


def _within(contexts: str) -> dict[str, Any]:
    return {"within": CONTEXTS["range"]} if contexts == "range" else {}


COMBINATIONS = list(itertools.product(SURROGATES, BETAS, SETTINGS, SETS, CONTEXTS, POLICIES))


def test_every_combination_claims_what_the_table_says() -> None:
    """All are walked: refused ones are refused by the table, and no other prints more than its claim."""
    refused = accepted = 0
    for surrogate, beta, setting, ambiguity, contexts, policy in COMBINATIONS:
        proven = isinstance(beta, TheoreticalBeta)
        if proven and isinstance(surrogate, LearnedGP):
            with pytest.raises(TypeError, match="beta must be a number for a surrogate that learns"):
                make(surrogate, beta, setting, ambiguity, contexts, policy)
            refused += 1
            continue
        opt = make(surrogate, beta, setting, ambiguity, contexts, policy)
        claim = claims.bound(opt.configuration.surrogate, opt.configuration.beta)
        assert claim.proven == proven
        regret = claims.regret(
            opt.configuration.surrogate,
            opt.configuration.beta,
            opt.configuration.setting,
            opt.configuration.policy,
            ambiguity,
            exact=contexts == "finite",
        )
        assert regret.proven == (proven and contexts == "finite" and expected_theorem(setting, ambiguity, policy))
        accepted += 1
    assert refused == 2 * len(SETTINGS) * len(SETS) * len(CONTEXTS) * len(POLICIES)
    assert accepted == len(COMBINATIONS) - refused


def expected_theorem(setting: str, ambiguity: Any, policy: Any) -> bool:
    """Written down from the paper: who picks the context decides, the set and the radius; its policy is optimism."""
    if isinstance(policy, Thompson):
        return False
    by_learner = setting == "simulator" if policy is None else policy.contexts is not None
    if by_learner:
        return policy is None or policy.contexts == Uncertain()
    return setting in ("general", "data-driven") and isinstance(ambiguity, MMD)


@pytest.mark.parametrize(
    ("setting", "proven"),
    [
        (DataDriven(), True),
        (DataDriven(radius=drbo.radius.Theoretical()), True),
        (DataDriven(0.05), False),
        (DataDriven(radius=drbo.radius.Theoretical(0.05)), False),
        (DataDriven(radius=drbo.radius.Theoretical(factor=0.01)), False),
        (DataDriven(radius=drbo.radius.Theoretical(factor=2.0)), False),
        (DataDriven(radius=drbo.radius.Bootstrap()), False),
        (DataDriven(radius=drbo.radius.Decaying(10.0)), False),
        (DataDriven(radius=0.0), False),
        (DataDriven(radius=np.inf), False),
    ],
    ids=repr,
)
def test_corollary_4_is_claimed_for_the_radius_of_the_paper_alone(setting: DataDriven, proven: bool) -> None:
    """REVIEW V4: it was claimed for `radius=0.0`, for a factor of 0.01 and for `Bootstrap()`."""
    beta = TheoreticalBeta(bound=1.0, noise=0.1, delta=0.1)
    claim = claims.regret(SURROGATES[0], beta, setting, Optimism(), MMD(), exact=True)
    assert (claim.proven, claim.source) == ((True, "Corollary 4") if proven else (False, "none"))


def test_corollary_4_with_another_delta_needs_the_radius_of_that_delta() -> None:
    beta = TheoreticalBeta(bound=1.0, noise=0.1, delta=0.05)
    for setting, proven in ((DataDriven(0.05), True), (DataDriven(), False)):
        assert claims.regret(SURROGATES[0], beta, setting, Optimism(), MMD(), exact=True).proven == proven


@pytest.mark.parametrize("contexts", CONTEXTS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("beta", BETAS, ids=lambda beta: type(beta).__name__)
@pytest.mark.parametrize("surrogate", SURROGATES[:3], ids=lambda one: type(one).__name__)
def test_what_is_printed_is_what_is_claimed(surrogate: Any, beta: Any, setting: str, contexts: str) -> None:
    proven = isinstance(beta, TheoreticalBeta)
    if proven and isinstance(surrogate, LearnedGP):
        return  # refused: the walk above shows it
    opt = make(surrogate, beta, setting, MMD(), contexts, None)
    radius = 0.1 if setting == "general" else None
    for c in (0.1, 0.5, 0.9) if contexts != "finite" else POINTS[:3]:
        opt.tell(POINTS[1], 5.0 + float(c), context={"c": float(c)} if contexts == "range" else c)
    r = opt.recommend(**given(setting, contexts), radius=radius)
    printed = words_of(r)
    assert ("with probability" in printed) == proven
    assert ("guaranteed: at least" in printed) == proven
    counted = r.trust.verdict == "extrapolated" and r.value == r.trust.stressed != r.trust.guess
    word = "estimated" if r.trust.verdict == "checked" or counted else "a guess"
    assert (f"{word}: at least" in printed) != proven
    assert "within a maximum mean discrepancy (MMD) of" in printed
    assert (r.delta is not None) == proven


@pytest.mark.parametrize(
    ("ambiguity", "words"),
    [
        (MMD(), "within a maximum mean discrepancy (MMD) of 0.1 of the reference"),
        (TotalVariation(), "that replaces at most 10.0% of the reference (total variation)"),
        (KL(), "within a Kullback-Leibler divergence of 0.1 nats of the reference"),
        (ChiSquare(), "within a chi-square divergence of 0.1 of the reference"),
        (CVaR(), "that is a share of at least 90.0% of the reference (CVaR)"),
        (Wasserstein(), "within a Wasserstein distance of 0.1 of the reference, in the units of the contexts"),
        (Expectation(), "that is the reference itself"),
        (Neighbourhood(), "on the contexts within 0.1 of the reference's mean, in their units"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_certificate_names_its_set_and_units(ambiguity: Any, words: str) -> None:
    """REVIEW U20: "within 0.292" of what?"""
    opt = make(GP(KERNEL, 0.1), 2.0, "simulator", ambiguity, "finite", None)
    assert words in words_of(opt.recommend())


def test_a_worst_case_of_ignorance_is_called_so() -> None:
    """REVIEW S12: with one outcome, most of the worst case lies where nothing has been seen."""
    opt = make(GP(Product(RBF(0.3), RBF(0.05)), 0.05), 2.0, "simulator", TotalVariation(), "finite", None)
    opt.tell(POINTS[0], 1.0, context=POINTS[0])
    assert words_of(opt.recommend()).startswith("extrapolated: ")
    for x in POINTS:
        for c in POINTS:
            opt.tell(x, 1.0, context=c)
    r = opt.recommend()
    assert "extrapolated" not in words_of(r)


def test_failures_and_pending_ones_never_enter_a_certificate() -> None:
    """REVIEW S1: f = -1, correct norm bound; 0.1 promised "at least -0.85" after failures and no outcome at all."""
    opt = Optimizer(
        [0.0, 1.0],
        [0.0],
        ambiguity=Expectation(),
        setting=Simulator([1.0], 0.0, pick="uncertain"),
        surrogate=GP(Product(RBF(0.1), RBF(1.0)), 0.1),
        beta=TheoreticalBeta(bound=1.5, noise=0.1, delta=0.01),
    )
    prior = opt.recommend().value
    assert prior <= -1.0
    for number in range(10):
        s = opt.ask()
        if s.action_index == 0:
            opt.tell(s, failed=True)
        r = opt.recommend()
        assert r.value == prior
        assert r.action_index == 1 or number == 0
    assert len(opt.pending) > 0
    assert any(result.failed for result in opt.results)


@pytest.mark.parametrize("size", [0.01, 100.0])
def test_units_fixed_beforehand_change_nothing_but_the_units(size: float) -> None:
    """REVIEW S2: outcomes, noise and bound scaled together."""
    rng = np.random.default_rng(0)
    noise = 0.05 * rng.normal(size=12)

    def run(scale: float, offset: float) -> tuple[list[tuple[int, int]], float, float]:
        opt = Optimizer(
            POINTS,
            POINTS,
            ambiguity=MMD(),
            setting=Simulator(np.full(4, 0.25), 0.1, pick="uncertain"),
            surrogate=GP(KERNEL, 0.05, offset=offset, scale=scale),
            beta=TheoreticalBeta(bound=2.0 * scale, noise=0.05 * scale),
        )
        chosen = []
        for error in noise:
            s = opt.ask()
            y = float(np.sin(5 * s.action[0]) * s.context[0]) + error
            opt.tell(s, offset + scale * y)
            chosen.append((s.action_index, s.context_index))
        r = opt.recommend()
        return chosen, (r.value - offset) / scale, r.beta

    chosen, value, beta = run(1.0, 0.0)
    assert run(size, 3.0 * size)[0] == chosen
    assert run(size, 3.0 * size)[1:] == pytest.approx((value, beta), rel=1e-9)


def test_a_width_of_its_own_for_certificates() -> None:
    values = []
    for width in (2.0, 3.0):
        opt = Optimizer(
            POINTS,
            POINTS,
            setting=Simulator(np.full(4, 0.25), 0.1, pick="uncertain"),
            surrogate=GP(KERNEL, 0.1),
            bound_beta=width,
        )
        for _ in range(6):
            s = opt.ask()
            opt.tell(s, float(s.action[0]))
        r = opt.recommend()
        assert r.beta == width
        values.append((r.value, [result.action[0] for result in opt.results]))
    assert values[1][0] < values[0][0]
    assert values[1][1] == values[0][1]  # the search keeps its own
    with pytest.raises(TypeError, match="bound_beta must be a number"):
        Optimizer(POINTS, POINTS, setting=Simulator(np.full(4, 0.25), 0.1, pick="uncertain"), bound_beta="wide")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="surrogate that learns"):
        Optimizer(POINTS, POINTS, setting=Simulator(np.full(4, 0.25), 0.1, pick="uncertain"), bound_beta=BETAS[1])


def test_the_default_width_is_what_was_measured() -> None:
    """A model that learns certifies with 3 deviations at least; a width that is given is kept."""
    arguments: dict[str, Any] = {"setting": Simulator(np.full(4, 0.25), 0.1, pick="uncertain")}
    assert Optimizer(POINTS, POINTS, **arguments).recommend().beta == 3.0
    assert Optimizer(POINTS, POINTS, **arguments, beta=4.0).recommend().beta == 4.0
    assert Optimizer(POINTS, POINTS, **arguments, bound_beta=1.0).recommend().beta == 1.0
    assert Optimizer(POINTS, POINTS, **arguments, surrogate=GP(KERNEL, 0.1)).recommend().beta == 2.0


def test_the_documents_hold_the_table() -> None:
    """docs/claims.md has every claim of the table, word for word."""
    page = " ".join((ROOT / "docs" / "claims.md").read_text().split())
    widths = {claims.LEMMA_1: 2.0, claims.FIXED: 2.0, claims.LEARNED: LearnedGP.bound_width}
    for claim, width in widths.items():
        text = claim.text.format(beta=width, confidence=0.9)
        assert text in page
        assert claim.source in page
    assert claims.BREAKS_LEMMA_1 in page
    for name in ("Theorem 2", "Corollary 4", "Theorem 5 and Corollary 6"):
        assert name in page
    assert drbo.__version__.startswith("0.3")


@pytest.mark.parametrize(
    ("contexts", "ambiguity", "radius", "words"),
    [
        ("finite", MMD(), 3.0, r"\(that is every distribution on the contexts: none is further away than"),
        ("finite", CVaR(), 1.7, r"\(that is every distribution on the contexts that the reference shows: none"),
        ("samples", Wasserstein(), 5.0, r"\(that is every distribution on the contexts: none is further away than"),
        ("range", Wasserstein(), 5.0, r"\(that is every distribution on the contexts: none is further away than 0.6\)"),
        ("range", MMD(), 3.0, r"\(that is every distribution on the contexts: none is further away than"),
    ],
)
def test_a_radius_beyond_the_diameter_is_said_to_be_one(
    contexts: str, ambiguity: Any, radius: float, words: str
) -> None:
    """REVIEW U7: such a radius was taken silently."""
    opt = make(GP(KERNEL, 0.1), 2.0, "general", ambiguity, contexts, None)

    def at(radius: float) -> drbo.analysis.Recommendation:
        return opt.recommend(**given("general", contexts), radius=radius)

    beyond = at(radius)
    assert beyond.radius >= beyond.diameter
    assert re.search(words, words_of(beyond))
    assert "that is every distribution" not in words_of(at(0.5 * beyond.diameter))
    assert "that is every distribution" not in words_of(at(np.inf))
