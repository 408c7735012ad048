"""Rules for the radius: the same data give the same radius, computed once, and never without a past."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo.radius import Bootstrap, Calibrated, Decaying, EmpiricalLikelihood, Theoretical
from drbo.rounds import past
from drbo.rounds.learned_radius import canonical, enough

FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)
RULES = (Bootstrap(0.1), Bootstrap(0.1, block="auto"), Calibrated(0.9), Calibrated(0.9, block=3))
SETS = {
    "wasserstein": drbo.Wasserstein(),
    "wasserstein 2": drbo.Wasserstein(order=2.0),
    "mmd": drbo.MMD(kernel=drbo.RBF(0.3)),
    "tv": drbo.TotalVariation(),
    "kl": drbo.KL(),
}


@pytest.mark.parametrize("name", SETS)
def test_the_radius_does_not_depend_on_the_order_of_listing(name: str) -> None:
    rng = np.random.default_rng(0)
    points, seen = rng.random((9, 2)), rng.integers(0, 7, 80)  # two contexts are never seen
    order = rng.permutation(9)
    where = np.argsort(order)
    for rule in RULES:
        first = rule.radius(seen, SETS[name].on(points), 9)
        second = rule.radius(where[seen], SETS[name].on(points[order]), 9)
        assert second == pytest.approx(first, rel=1e-9)


def test_labels_by_count_have_no_order_either() -> None:
    counts = {"a": 30, "b": 12, "c": 3, "d": 0}
    other = {name: counts[name] for name in ("c", "d", "a", "b")}
    setting = drbo.Simulator(radius=Bootstrap(0.1))
    asked = [
        drbo.Optimizer([0.0, 1.0], one, ambiguity=drbo.TotalVariation(), setting=setting).ask()
        for one in (counts, other)
    ]
    assert asked[0].radius == pytest.approx(asked[1].radius, rel=1e-9)


def test_the_order_is_by_count_then_by_distance() -> None:
    placed = drbo.Wasserstein().on(np.array([0.0, 5.0, 1.0, 9.0]))
    assert canonical(np.array([2, 2, 2, 0]), placed, 4).tolist() == [2, 0, 1, 3]


def test_fewer_resamples_of_many_contexts() -> None:
    assert [enough(500, n) for n in (1, 300, 364, 1006, 10_000)] == [500, 500, 340, 100, 100]
    assert enough(50, 10_000) == 50


class Counting(drbo.radius.RadiusRule):
    """A rule that counts how often it is computed."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def arguments(self) -> dict[str, Any]:
        return {}

    def radius(self, seen: Any, ambiguity: Any, n_contexts: int, weights: Any = None) -> float:
        del ambiguity, n_contexts, weights
        self.calls.append(len(seen))
        return 0.1


def test_a_rule_is_computed_once_while_its_data_have_not_changed() -> None:
    rule = Counting()
    days = drbo.Samples(np.linspace(0.0, 1.0, 12))
    opt = drbo.Optimizer([0.0, 1.0], days, setting=drbo.Simulator(radius=rule), surrogate=FIXED)
    for _ in range(3):
        s = opt.ask()
        opt.tell(s, 1.0)
        opt.recommend()
    assert rule.calls == [12]
    rule = Counting()
    family, setting = drbo.TotalVariation(), drbo.DataDriven(radius=rule)
    opt = drbo.Optimizer([0.0, 1.0], ["a", "b"], ambiguity=family, setting=setting, surrogate=FIXED)
    for label in "ab":
        s = opt.ask()
        opt.recommend()
        opt.tell(s, 1.0, context=label)
    opt.ask()
    assert rule.calls == [0, 1, 2]  # a context that was seen is new data


@pytest.mark.parametrize("rule", [Bootstrap(), Calibrated(), Theoretical(), Decaying(1.0), EmpiricalLikelihood()])
def test_a_rule_without_a_past_is_refused_where_it_is_given(rule: Any) -> None:
    family = drbo.KL() if isinstance(rule, EmpiricalLikelihood) else drbo.TotalVariation()

    def make(contexts: Any, setting: Any) -> Any:
        return drbo.Optimizer([0.0, 1.0], contexts, ambiguity=family, setting=setting, surrogate=FIXED)

    with pytest.raises(TypeError, match=r"learns from past contexts.*Give Simulator\(history=\.\.\.\)"):
        make([0.0, 1.0], drbo.Simulator([0.5, 0.5], radius=rule))
    with pytest.raises(TypeError, match="learns from past contexts"):
        make(["a", "b"], drbo.Simulator({"a": 0.5, "b": 0.5}, radius=rule))
    assert make([0.0, 1.0], drbo.Simulator(radius=rule, history=[0, 1, 1, 0, 1] * 8)).ask().radius < np.inf
    assert make({"a": 3, "b": 4}, drbo.DataDriven(radius=Decaying(1.0)))
    assert make([0.0, 1.0], drbo.Simulator([0.5, 0.5], radius=np.inf)).ask().radius == np.inf


def test_a_box_without_samples_has_no_past() -> None:
    with pytest.raises(TypeError, match="learns from past contexts"):
        drbo.Optimizer([0.0, 1.0], drbo.Box(c=(0.0, 1.0)), setting=drbo.Simulator(radius=Calibrated()))


def test_a_file_with_a_rule_without_a_past_goes_on_with_a_warning() -> None:
    read = drbo.knowledge.from_json(drbo.knowledge.to_json(drbo.Simulator([0.5, 0.5], radius=Decaying(1.0))))
    with pytest.warns(UserWarning, match="The loaded run continues as before"):
        drbo.Optimizer([0.0, 1.0], [0.0, 1.0], setting=read)


def test_progress_of_a_long_rule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("drbo._messages._PATIENCE", 0.0)
    days = drbo.Samples(np.random.default_rng(0).normal(size=30))
    found = Bootstrap(0.1, resamples=20).for_samples(days)
    assert "drbo: resamples for the radius, 0 of 20" in capsys.readouterr().err
    monkeypatch.setattr("drbo._messages._PATIENCE", 60.0)
    assert Bootstrap(0.1, resamples=20).for_samples(days) == found
    assert capsys.readouterr().err == ""


def test_the_number_of_atoms_that_a_set_needs_is_named() -> None:
    days = drbo.Samples(np.arange(40.0), atoms=10)
    with pytest.raises(ValueError, match=r"there are 40 different ones: give Samples\(\.\.\., atoms=40\)"):
        drbo.Optimizer([0.0, 1.0], days, ambiguity=drbo.TotalVariation(), setting=drbo.Simulator(radius=0.1))


def test_few_distances_are_computed_for_many_rows() -> None:
    """Counted in distances, as a clock depends on the machine: 20 ms each for 1,006 contexts on one core."""
    placed: Any = drbo.Wasserstein(scale=[1.0, 1.0]).on(np.random.default_rng(0).random((600, 2)))
    real, calls = placed.distance, []

    def counted(p: Any, q: Any) -> Any:
        calls.append(1)
        return real(p, q)

    placed.distance = counted
    assert np.isfinite(Calibrated(0.9).radius(np.arange(600), placed, 600))
    assert len(calls) <= 125 + 101 * 7 + past._PAIRS
