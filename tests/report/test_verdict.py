"""The verdict is computed from what the optimizer says, by thresholds that stand in one table."""

import functools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, RBF, Box, Optimizer, Product, Samples, Simulator
from drbo.analysis import Recommendation, Surprises
from drbo.knowledge.explanation import Deferred
from drbo.report.contents import PageContents
from drbo.report.phrases import Phrases, shift_in_words
from drbo.report.verdict import THRESHOLDS, Light, verdict
from report.runs import RUNS

WORDS = Phrases("cost", "EUR", maximize=False)
CALM = Surprises(40, 0, 0.11, (), False, False)


@pytest.fixture(scope="module")
def good() -> tuple[Recommendation, list[float]]:
    """A recommendation that no check speaks against, and its outcomes."""
    xs, cs = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 3)
    opt = Optimizer(
        xs, cs, setting=Simulator(np.ones(3), 0.1), surrogate=GP(Product(RBF(0.4), RBF(0.6)), 0.05), maximize=False
    )
    for x in xs:
        for j in range(3):
            opt.tell(float(x), float((x - 0.5) ** 2 + 0.1 * cs[j]), context_index=j)
    r = opt.recommend()
    calm = replace(r, trusted=Deferred(lambda: replace(r.trust, surprises=CALM)))
    return calm, [result.outcome for result in opt.results if result.outcome is not None]


def judged(r: Recommendation, outcomes: list[float], **changed: Any) -> Any:
    trust = {name: value for name, value in changed.items() if name in ("surprises", "verdict")}
    rest = {name: value for name, value in changed.items() if name not in trust}
    new = replace(r.trust, **trust)
    return verdict(replace(r, trusted=Deferred(lambda: new), **rest), outcomes, 2, WORDS)


def test_nothing_speaks_against_a_good_one(good: tuple[Recommendation, list[float]]) -> None:
    found = judged(*good)
    assert found.light is Light.GREEN, [str(finding) for finding in found.findings]
    assert str(found) == "Sure enough to deploy: no check failed."


@pytest.mark.parametrize(
    ("changed", "light", "said"),
    [
        ({"surprises": replace(CALM, far=3, refuted=True)}, Light.RED, "3 of the last 40 .* the model is too sure of"),
        ({"surprises": replace(CALM, far=3)}, Light.AMBER, "3 of the last 40 outcomes .* 0.1 were to be expected"),
        ({"surprises": replace(CALM, far=1)}, Light.GREEN, "came true"),
        ({"surprises": replace(CALM, tested=9)}, Light.AMBER, "Only 9 earlier"),
        ({"surprises": replace(CALM, corrected=True)}, Light.AMBER, "corrected"),
        ({"verdict": "extrapolated"}, Light.AMBER, "Neither this action"),
        ({"success": 0.8}, Light.AMBER, "probability of 0.80"),
        ({"rows": 5}, Light.AMBER, "5 past case"),
    ],
)
def test_each_check(good: tuple[Recommendation, list[float]], changed: dict[str, Any], light: Light, said: str) -> None:
    found = judged(*good, **changed)
    assert found.light is light
    assert any(re.search(said, str(finding)) for finding in found.findings if finding.light is light)


def test_few_outcomes_and_a_model_that_knows_little(good: tuple[Recommendation, list[float]]) -> None:
    r, outcomes = good
    assert judged(r, outcomes[:4]).light is Light.RED
    assert judged(r, outcomes[:9]).light is Light.AMBER
    spread = float(np.std(outcomes))
    for size, light in ((1.1, Light.AMBER), (3.1, Light.RED)):
        unsure = replace(r.explain(), ignorance=size * spread)
        assert judged(r, outcomes, explanation=Deferred(functools.partial(replace, unsure))).light is light


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \| ([\d.]+) \|", text, re.MULTILINE)
    assert {name: float(value) for name, value in rows} == THRESHOLDS


def test_surprises_by_chance_are_those_of_the_binomial() -> None:
    rate = math.erfc(3.0 / math.sqrt(2.0))
    for far, tested in ((1, 10), (2, 40), (3, 40)):
        exact = 1.0 - sum(math.comb(tested, k) * rate**k * (1 - rate) ** (tested - k) for k in range(far))
        assert Surprises(tested, far, 0.0, (), False, False).by_chance == pytest.approx(exact, rel=1e-6)
    assert Surprises(40, 0, 0.0, (), False, False).by_chance == 1.0


def test_costs_are_lower_and_rewards_are_higher() -> None:
    assert WORDS.better_by(3.0, 10.0) == "lower by 3 EUR"
    assert WORDS.better_by(-3.0, 10.0) == "higher by 3 EUR"
    assert WORDS.better_by(3.0, 10.0, "at most") == "lower by at most 3 EUR"
    assert replace(WORDS, maximize=True).better_by(3.0, 10.0) == "higher by 3 EUR"
    assert WORDS.axis == "cost (EUR)"


def test_a_loss_that_is_a_gain_says_so() -> None:
    assert WORDS.change(2.0, 10.0, "gained") == "2 EUR"
    assert WORDS.change(-2.0, 10.0, "gained") == "none: 2 EUR gained"
    assert WORDS.change(-1e-6, 10.0, "gained") == "0 EUR"
    assert WORDS.change(0.12345, 10.0, "gained") == "0.12 EUR"  # 10.00
    assert WORDS.better_by(1e-6, 10.0) == "the same"


def test_the_first_screen_speaks_of_the_users_units() -> None:
    """REVIEW U7: the shift is said in degrees, before the set and its radius, with the outcome's name and unit."""
    past = {"ambient": np.linspace(10.0, 30.0, 21)}
    opt = Optimizer(
        Box(fan=(0.0, 10.0)),
        Samples(past),
        ambiguity=drbo.Wasserstein(scale={"ambient": 5.0}),
        setting=Simulator(radius=0.55, pick="uncertain"),
        maximize=False,
        outcome="cost",
        unit="EUR per day",
        outcome_range=(0.0, None),
    )
    for i in range(12):
        fan, ambient = 10.0 * (i % 4) / 3.0, 10.0 + 20.0 * (i % 3) / 2.0
        opt.tell({"fan": fan}, 0.2 * fan + max(ambient - 15.0 - fan, 0.0) ** 2 / 10.0, context={"ambient": ambient})
    shown = PageContents(opt).deploy()
    assert re.match(r"cost of about [\d.]+ EUR per day on average", shown["usual"])
    assert re.match(r"cost of at most [\d.]+ EUR per day on average", shown["shifted"])
    assert shown["shifted_if"].startswith("if ambient is always up to 2.75 higher than usual, or conditions shift by")
    assert "Wasserstein" not in shown["shifted_if"]
    assert "Wasserstein" in shown["sentence"]
    reach = re.search(r"lower by at most ([\d.]+) EUR per day", shown["reach"])
    assert reach
    assert float(reach[1]) <= opt.recommend().value * 1.001  # a cost is not below 0
    progress = PageContents(opt).progress()["figure"]
    assert progress.y.title == "cost (EUR per day)"


@pytest.mark.parametrize("name", ["labels", "range"])
def test_every_kind_of_set_has_a_shift_in_words(name: str) -> None:
    opt = RUNS[name]()
    r = opt.recommend()
    assert "up to" in shift_in_words(opt.under().explain_radius(r.radius), r.explain())


@pytest.mark.parametrize(
    ("ambiguity", "radius", "words"),
    [
        (drbo.TotalVariation(), 0.1, "cases are replaced by the worst"),
        (drbo.KL(), 0.1, "times as frequent"),
        (drbo.Shares(old=(0.1, 0.5)), 0.0, "the share of old is from 10% to 50%, with the usual proportions inside"),
        (drbo.MMD(), 0.0, "no shift is allowed for"),
        (drbo.MMD(), 10.0, "as frequent as you like"),
    ],
)
def test_sets_without_positions(ambiguity: Any, radius: float, words: str) -> None:
    opt = Optimizer([0.0, 1.0], {"young": 3, "old": 1}, ambiguity=ambiguity, setting=Simulator(radius=radius))
    for x in (0.0, 1.0):
        opt.tell(x, {"young": 1.0 + x, "old": 2.0 - x})
    r = opt.recommend()
    assert words in shift_in_words(opt.under().explain_radius(r.radius), r.explain())
