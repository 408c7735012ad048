"""Probabilities, quantiles and level sets of an optimizer, against what its predictions say of every context."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import drbo
import ranges
from bits import bits
from drbo import (
    KL,
    MMD,
    RBF,
    AtLeast,
    Box,
    Chance,
    DataDriven,
    General,
    LevelSet,
    NotReachedError,
    Optimizer,
    Samples,
    Simulator,
    TheoreticalBeta,
    TotalVariation,
    Undecided,
)
from drbo.knowledge import claims
from drbo.models.bounds import simultaneous
from optimizer.middling import ACTIONS, CONTEXTS, f, grid

P = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
ROUND: dict[str, Any] = {"reference": P, "radius": 0.1}


def bounds(opt: Optimizer, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return both confidence bounds (9, 5) of a width."""
    told = [opt.predict(x, CONTEXTS[:, None]) for x in ACTIONS]
    mean, std = np.array([one.mean for one in told]), np.array([one.std for one in told])
    return mean - width * std, mean + width * std


@pytest.mark.parametrize("ambiguity", [TotalVariation(), KL(), MMD(kernel=RBF(0.3))], ids=repr)
@pytest.mark.parametrize("maximize", [True, False])
def test_probabilities_of_every_action(ambiguity: drbo.AmbiguitySet, maximize: bool) -> None:
    opt, sign = grid(ambiguity=ambiguity, maximize=maximize), 1.0 if maximize else -1.0
    width = simultaneous(2.0, 5)
    low, high = bounds(opt, width)
    for above in (True, False):
        h = sign * 0.95
        least, most = ((low > h), (high > h)) if above else ((high < h), (low < h))
        lower = opt.configuration.placed.worst_case(least * 1.0, P, 0.1).expectation
        upper = opt.configuration.placed.worst_case(most * 1.0, P, 0.1).expectation
        for i, x in enumerate(ACTIONS):
            asked: dict[str, Any] = {"above": h} if above else {"below": h}
            found = opt.under(**ROUND).probability(x, **asked)
            assert found.lower == pytest.approx(lower[i], abs=1e-7)
            assert found.upper == pytest.approx(upper[i], abs=1e-7)
            assert found.certainty.beta == pytest.approx(width)
            assert found.weights @ least[i] == pytest.approx(found.lower, abs=1e-7)
    noisy = opt.under(**ROUND).probability(0.5, above=h, of="outcome")
    values = norm.cdf((low[4] - h) / 0.05), norm.cdf((high[4] - h) / 0.05)
    worst = [opt.configuration.placed.worst_case(one, P, 0.1).expectation for one in values]
    assert [noisy.lower, noisy.upper] == pytest.approx(worst, abs=1e-7)


@pytest.mark.parametrize("maximize", [True, False])
def test_values_at_risk(maximize: bool) -> None:
    opt, sign = grid(maximize=maximize), 1.0 if maximize else -1.0
    low, high = bounds(opt, simultaneous(2.0, 5))
    good, bad = (low, high) if maximize else (-high, -low)  # both to be maximised
    for level in (0.05, 0.25):
        for i, x in enumerate(ACTIONS):
            found = opt.under(**ROUND).value_at_risk(x, level)
            for values, answer in ((good[i], found.value), (bad[i], found.reachable)):
                holds = [
                    t
                    for t in values
                    if opt.configuration.placed.worst_case((values >= t) * 1.0, P, 0.1).expectation >= 1 - level
                ]
                assert sign * answer == pytest.approx(max(holds), abs=1e-9)
            # What a quantile promises: the event has that probability.
            nudged: dict[str, Any] = {"above" if maximize else "below": found.value - sign * 1e-9}
            assert opt.under(**ROUND).probability(x, **nudged).lower >= 1 - level - 1e-8
    noisy = opt.under(**ROUND).value_at_risk(0.5, 0.05, of="outcome")
    assert sign * noisy.value < sign * opt.under(**ROUND).value_at_risk(0.5, 0.05).value


def test_classification_recommendation_and_their_agreement() -> None:
    opt, chance = grid(60), Chance(0.8, above=0.95)
    found = opt.under(**ROUND).classify(chance)
    width = simultaneous(2.0, 45)
    low, high = bounds(opt, width)
    lower = opt.configuration.placed.worst_case((low > 0.95) * 1.0, P, 0.1).expectation
    upper = opt.configuration.placed.worst_case((high > 0.95) * 1.0, P, 0.1).expectation
    expected = np.where(lower >= 0.8 - 1e-9, "in", np.where(upper >= 0.8 - 1e-9, "open", "out"))
    assert list(found.labels) == expected.tolist()
    assert {"in", "out"} <= set(found.labels)
    truth = np.array([[f(x, c) > 0.95 for c in CONTEXTS] for x in ACTIONS]) * 1.0
    meets = opt.configuration.placed.worst_case(truth, P, 0.1).expectation >= 0.8 - 1e-9
    assert all(meets[i] for i, label in enumerate(found.labels) if label == "in")
    assert not any(meets[i] for i, label in enumerate(found.labels) if label == "out")
    some = opt.under(**ROUND).classify(chance, [0.0, 1.0])
    assert len(some.labels) == 2

    limited = grid(60, limits={"outcome": AtLeast(0.95, probability=0.8)})
    r = limited.recommend(**ROUND)
    certain = bounds(opt, simultaneous(2.0, 5))[0]
    met = opt.configuration.placed.worst_case((certain > 0.95) * 1.0, P, 0.1).expectation >= 0.8 - 1e-9
    scores = opt.configuration.placed.worst_case(bounds(opt, 2.0)[0], P, 0.1).expectation
    assert r.action_index == np.argmax(np.where(met, scores, -np.inf))
    assert r.value == pytest.approx(scores[r.action_index], abs=1e-7)
    own = r.limits["outcome"]
    assert own.holds
    assert own.value == pytest.approx(opt.under(**ROUND).probability(r.action, above=0.95).lower, abs=1e-9)
    assert own.value >= 0.8 - 1e-9
    assert "outcome at least 0.95 with a probability of at least" in " ".join(str(r).split())
    assert opt.recommend(**ROUND).limits == {}


def test_no_action_whose_bound_meets_the_constraint() -> None:
    opt = grid()
    with pytest.raises(
        NotReachedError, match=r"no action is known to meet all limits: .* comes closest, with outcome at"
    ):
        grid(limits={"outcome": AtLeast(9.0, probability=0.9)}).recommend(**ROUND)
    assert set(opt.under(**ROUND).classify(Chance(0.9, above=9.0)).labels) == {"out"}
    empty = Optimizer(ACTIONS, CONTEXTS, setting=General())
    with pytest.raises(NotReachedError, match="no outcome"):
        empty.under(**ROUND).probability(0.5, above=0.0)


def test_lemma_1_needs_no_wider_bounds() -> None:
    opt = grid(beta=TheoreticalBeta(bound=2.0, noise=0.05))
    found = opt.under(**ROUND).probability(0.5, above=0.5)
    assert found.certainty.beta == opt.recommend(**ROUND).beta
    assert found.certainty.claim.proven
    assert str(found).startswith("guaranteed")
    noisy = opt.under(**ROUND).probability(0.5, above=0.5, of="outcome")
    assert not noisy.certainty.claim.proven  # the lemma does not know that the noise is normal
    assert "normal noise" in " ".join(str(noisy).split())
    plain = grid().under(**ROUND).probability(0.5, above=0.5)
    assert "in all contexts at once" in " ".join(str(plain).split())
    assert str(grid().under(**ROUND).value_at_risk(0.5, 0.1)).startswith("estimated: f is at least")


def test_what_cannot_be_is_refused() -> None:
    ranged = Optimizer(
        ranges.GRID, ranges.SAMPLES, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=ranges.FIXED
    )
    ranges.run(ranged, 1)
    packed = Optimizer(
        Box(x=(0.0, 1.0)),
        Samples(np.random.default_rng(0).random((300, 1)), atoms=10),
        setting=Simulator(radius=0.1, pick="uncertain"),
    )
    for opt, action in ((ranged, ranges.GRID[3]), (packed, {"x": 0.5})):
        with pytest.raises(TypeError, match="needs every context as an atom"):
            opt.under().probability(action, above=0.0)
    with pytest.raises(TypeError, match="actions must be given where they are a box"):
        packed.under().classify(Chance(0.9, above=0.0))
    with pytest.raises(TypeError, match=r"limits must not have a probability where samples are compressed.*atoms=300"):
        Optimizer(**{**packed.configuration.arguments, "limits": {"outcome": AtLeast(0.0, probability=0.9)}})
    with pytest.raises(TypeError, match="limits must not have a probability where contexts have a range"):
        Optimizer(**{**ranged.configuration.arguments, "limits": {"outcome": AtLeast(0.0, probability=0.9)}})
    with pytest.raises(TypeError, match="either above or below"):
        grid().under(**ROUND).probability(0.5)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        grid().under(**ROUND).value_at_risk(0.5, 1.0)
    with pytest.raises(ValueError, match="of must be"):
        grid().under(**ROUND).value_at_risk(0.5, 0.1, of="y")  # type: ignore[arg-type]


def test_policies_survive_copies_files_failures_and_pending(tmp_path: Path) -> None:
    chance = Chance(0.8, above=0.95)
    policy = LevelSet(chance, Undecided(chance))
    setting = Simulator(P, 0.1)
    opt, other = (grid(5, policy=policy, setting=setting) for _ in range(2))
    for one in (opt, other):
        for k in range(6):
            s = one.ask()
            outcome = f(float(s.action[0]), float(s.context[0]))
            one.tell(s, **({"failed": True} if k == 3 else {"outcome": outcome}))
        one.ask()
    answers = [
        opt.under().classify(chance),
        opt.under().probability(0.5, below=0.9),
        opt.under().value_at_risk(0.5, 0.1, of="outcome"),
    ]
    assert len(opt.history) == len(other.history)
    opt.save(tmp_path / "run.json")
    for again in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt)), Optimizer.load(tmp_path / "run.json"), opt):
        again._start_anew()
        assert again.configuration.policy == policy
        same = [
            again.under().classify(chance),
            again.under().probability(0.5, below=0.9),
            again.under().value_at_risk(0.5, 0.1, of="outcome"),
        ]
        assert bits(same) == bits(answers)
    assert bits(opt.ask()) == bits(other.ask())
    assert bits(Optimizer.load(tmp_path / "run.json").ask()) == bits(opt.pending[-1])


def test_the_level_set_policy_classifies_everything() -> None:
    chance = Chance(0.8, above=0.95)
    opt = grid(0, policy=LevelSet(chance, Undecided(chance)), setting=Simulator(P, 0.1))
    start = opt.under().classify(chance).labels.count("open")
    for _ in range(50):
        s = opt.ask()
        opt.tell(s, f(float(s.action[0]), float(s.context[0])))
    assert start == 9
    assert opt.under().classify(chance).labels.count("open") == 0
    opt.ask()  # there is still something to ask


def test_labels_boxes_samples_and_learned_models() -> None:
    opt = Optimizer(
        ["low", "high"], {"calm": 6, "storm": 4}, ambiguity=TotalVariation(), setting=DataDriven(radius=0.1)
    )
    for i in range(16):
        label, action = "calm" if i % 2 else "storm", "low" if i % 4 < 2 else "high"
        outcome = {"lowcalm": 1.0, "lowstorm": 0.8, "highcalm": 2.0, "highstorm": -1.0}
        opt.tell(action, outcome[action + label] + 0.01 * math.sin(i), context=label, drawn=False)
    assert opt.under().classify(Chance(0.9, above=0.0)).labels == ("in", "out")
    limited = Optimizer(**{**opt.configuration.arguments, "limits": {"outcome": AtLeast(0.0, probability=0.9)}})
    limited.replay(opt.records())
    assert limited.recommend().action == "low"
    assert opt.under().probability("high", above=0.0).upper == pytest.approx(0.5)
    assert opt.under(radius=None, given={0: "calm"}).probability("high", above=0.0).lower == 1.0
    box = Optimizer(
        Box(x=(0.0, 1.0)),
        Samples({"c": CONTEXTS}),
        setting=DataDriven(radius=0.05),
        limits={"outcome": AtLeast(0.9, probability=0.5)},
    )
    rng = np.random.default_rng(0)
    for _ in range(40):
        x, c = float(rng.random()), float(rng.choice(CONTEXTS))
        box.tell({"x": x}, f(x, c), context={"c": c}, drawn=False)
    chance = Chance(0.5, above=0.9)
    r = box.recommend()
    assert r.limits["outcome"].value == pytest.approx(box.under().probability(r.action, above=0.9).lower)
    table = box.under().classify(chance, [{"x": 0.0}, {"x": 0.5}, {"x": 1.0}])
    assert table.labels[0] == "out"
    assert "in" in table.labels


def test_limits_in_production() -> None:
    opt = grid(baseline=0.5, limits={"outcome": AtLeast(0.9, probability=0.8)})
    assert opt.ask(floor=50.0, **ROUND).fallback
    safe = opt.ask(floor=0.8, **ROUND)
    assert safe.fallback or opt.bound(safe.action).value >= 0.8 - 1e-9


def test_the_documents_say_what_is_claimed() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "claims.md").read_text().split())
    for claim in (claims.EVERYWHERE, claims.LEARNED_EVERYWHERE, claims.NORMAL_NOISE):
        assert claim.text.format(beta=3.29, confidence=0.9) in page
        assert claim.source in page
