"""Contexts of long ago count less, or no more: in the reference, in every rule for the radius, and in files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, RBF, DataDriven, Optimizer, Product, Samples
from drbo.contexts.nature import FiniteContexts, Memory
from drbo.contexts.sampled_contexts import SampledContexts
from drbo.radius import Bootstrap, Calibrated, Constant, Decaying, RadiusRule, Theoretical, empirical
from drbo.spaces import FiniteSet

FIXED = GP(Product(RBF(0.5), RBF(1.0)), 0.05)
POINTS = np.array([0.0, 0.5, 1.0])
SEEN = [0, 0, 0, 1, 1, 2, 2, 0, 1, 2, 2, 2, 1]
RULES: list[RadiusRule] = [Constant(0.3), Theoretical(0.1), Decaying(1.0), Bootstrap(resamples=100), Calibrated(0.9)]


def told(setting: DataDriven, seen: list[int] = SEEN, **more: Any) -> Optimizer:
    opt = Optimizer([0.0, 1.0], POINTS, setting=setting, surrogate=FIXED, **more)
    for i, j in enumerate(seen):
        opt.tell([0.0], float(i % 3), context_index=j)
    return opt


def test_weights_by_age() -> None:
    assert Memory().weights(3).tolist() == [1.0, 1.0, 1.0]
    assert Memory(window=2).weights(4).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert Memory(half_life=2.0).weights(5) == pytest.approx([0.25, 0.5**1.5, 0.5, 0.5**0.5, 1.0])
    assert Memory(window=5).weights(0).size == 0


def test_the_reference_is_that_of_the_window() -> None:
    """U16: in 0.1 a data-driven reference never forgot."""
    s = told(DataDriven(radius=0.1, window=5)).ask()
    assert s.reference == pytest.approx(np.bincount(SEEN[-5:], minlength=3) / 5)
    s = told(DataDriven(radius=0.1, window=500)).ask()
    assert s.reference == pytest.approx(np.bincount(SEEN) / len(SEEN))


def test_the_reference_of_a_half_life() -> None:
    s = told(DataDriven(radius=0.1, half_life=3)).ask()
    weights = 0.5 ** (np.arange(len(SEEN))[::-1] / 3)
    assert s.reference == pytest.approx([weights[np.array(SEEN) == j].sum() / weights.sum() for j in range(3)])


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_rule_respects_it(rule: RadiusRule) -> None:
    seen, family = np.array(SEEN), drbo.TotalVariation()
    window = told(DataDriven(radius=rule, window=6), ambiguity=family).ask()
    assert window.radius == rule.radius(seen[-6:], family, 3)
    weights = np.exp2(-np.arange(len(SEEN) - 1.0, -1.0, -1.0) / 4.0)
    life = told(DataDriven(radius=rule, half_life=4), ambiguity=family).ask()
    assert life.radius == rule.radius(seen, family, 3, weights=weights)
    plain = told(DataDriven(radius=rule), ambiguity=family).ask()
    assert plain.radius == rule.radius(seen, family, 3)


@pytest.mark.parametrize("rule", [Theoretical(0.1), Decaying(1.0)], ids=repr)
def test_the_effective_number_of_samples(rule: RadiusRule) -> None:
    """By plain computation: n_eff = (sum w)^2 / sum w^2 in place of t in 1 / sqrt(t)."""
    weights = 0.5 ** (np.arange(len(SEEN)) / 4.0)
    effective = weights.sum() ** 2 / (weights**2).sum()
    family = drbo.TotalVariation()
    life = told(DataDriven(radius=rule, half_life=4), ambiguity=family).ask().radius
    plain = told(DataDriven(radius=rule), ambiguity=family).ask().radius
    assert life / plain == pytest.approx(np.sqrt(len(SEEN) / effective))
    assert effective < len(SEEN)


def test_samples_are_the_past_the_oldest_first() -> None:
    data = np.array([0.0, 0.0, 3.0, 1.0])
    for memory, used in ((Memory(window=3), [3.0, 1.0, 2.0]), (Memory(window=1), [2.0])):
        contexts = SampledContexts(Samples(data, support=0), drbo.MMD(), seed=0)
        made = contexts.seen([contexts.encode("c", 2.0)], memory)
        values = contexts.space.measured(made.points)[:, 0]
        assert sorted(values) == pytest.approx(sorted(used))
        assert made.weights == pytest.approx(np.full(len(used), 1.0 / len(used)))
        assert len(made.history) == len(used)
        assert made.history_weights is None
    made = SampledContexts(Samples(data, support=0), drbo.MMD(), seed=0).seen([], Memory(half_life=1.0))
    assert made.history_weights == pytest.approx([0.125, 0.25, 0.5, 1.0])
    by_value = dict(zip(3.0 * made.points[:, 0], made.weights, strict=True))
    assert by_value == pytest.approx({0.0: 0.375 / 1.875, 3.0: 0.5 / 1.875, 1.0: 1.0 / 1.875})


def test_compression_takes_the_weights() -> None:
    """The compressed reference is within its bound of the weighted samples, in the MMD by plain computation."""
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(0.0, 1.0, 150), rng.normal(4.0, 1.0, 150)])
    contexts = SampledContexts(Samples(data, atoms=20, support=0), drbo.MMD(kernel=RBF(1.0)), seed=0)
    made = contexts.seen([], Memory(half_life=40.0))
    weights = np.exp2(-np.arange(299.0, -1.0, -1.0) / 40.0)
    both = np.concatenate([data, contexts.space.measured(made.points)[:, 0]])
    signed = np.concatenate([weights / weights.sum(), -made.weights])
    gram = np.exp(-0.5 * (both[:, None] - both) ** 2)
    assert np.sqrt(max(signed @ gram @ signed, 0.0)) <= made.error * (1.0 + 1e-9)
    assert len(made.points) <= 20
    assert made.error < 0.2
    assert (contexts.space.measured(made.points)[:, 0] * made.weights).sum() > 3.5, "the old ones are forgotten"


def test_forgetting_comes_before_what_is_known() -> None:
    """The window is of time: of the last six contexts those that match."""
    grid = [[i, j] for i in (0.0, 1.0) for j in (0.0, 1.0)]
    opt = Optimizer([0.0, 1.0], grid, setting=DataDriven(radius=Theoretical(), window=6), surrogate=FIXED)
    seen = [2, 3, 3, 0, 1, 2, 0, 0, 3]
    for j in seen:
        opt.tell([0.0], 0.0, context_index=j)
    s = opt.ask(given={0: 1.0})
    assert s.reference == pytest.approx([0.5, 0.5])  # of 0, 1, 2, 0, 0, 3 the contexts 2 and 3
    assert s.radius == Theoretical().radius(np.array([0, 1]), opt.configuration.placed, 2)
    life = FiniteContexts(FiniteSet("contexts", grid)).narrowed({0: 0.0})
    made = life.seen([life.space.at("c", j) for j in seen], Memory(half_life=2.0))
    assert made.history_weights == pytest.approx([2**-2.5, 0.25, 0.5, 2**-0.5])
    assert made.weights == pytest.approx(empirical(np.array([0, 1, 0, 0]), 2, made.history_weights))


def test_no_theorem_bounds_the_regret() -> None:
    assert DataDriven().theorem == "Corollary 4"
    assert DataDriven(window=60).theorem is None
    assert DataDriven(half_life=30).theorem is None


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"window": 0}, ValueError, "window must be at least 1, got 0"),
        ({"window": 2.5}, TypeError, r"window must be a whole number, got 2\.5"),
        ({"half_life": 0.0}, ValueError, r"half_life must be positive, got 0\.0"),
        ({"half_life": np.inf}, ValueError, "half_life must be finite"),
        ({"window": 3, "half_life": 2.0}, TypeError, "window and half_life must not both be given"),
    ],
)
def test_what_is_no_memory_is_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataDriven(**arguments)


@pytest.mark.parametrize("setting", [DataDriven(radius=0.1, window=4), DataDriven(radius=Theoretical(), half_life=3)])
def test_files_and_repr_say_it(setting: DataDriven, tmp_path: Path) -> None:
    opt = told(setting)
    pending = opt.ask()
    opt.save(tmp_path / "a.json")
    loaded = Optimizer.load(tmp_path / "a.json")
    assert repr(loaded.configuration.setting) == repr(setting)
    assert ("window=4" in repr(setting)) != ("half_life=3" in repr(setting))
    assert loaded.pending == (pending,)
    assert loaded.ask() == opt.ask()
    assert loaded.recommend().value == opt.recommend().value


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("half_life", [1e-4, 5e-324])
def test_a_very_short_memory_keeps_the_newest_alone(half_life: float) -> None:
    s = told(DataDriven(radius=Theoretical(), half_life=half_life)).ask()
    assert s.reference == pytest.approx([0.0, 1.0, 0.0])
