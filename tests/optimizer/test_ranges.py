"""The optimizer where contexts are a range: nature may choose any point of a box of named parameters."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import MMD, DataDriven, General, Matern, Optimizer, Setting, Simulator
from drbo.knowledge.history import Told
from ranges import ACTIONS, CONTEXTS, FIXED, GRID, SAMPLES, SETTINGS, ask, forecast, heating, nature, run, tell

every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=repr)


@every_setting
@pytest.mark.parametrize("actions", [ACTIONS, GRID], ids=["box", "grid"])
@pytest.mark.parametrize("contexts", [CONTEXTS, SAMPLES], ids=["box", "samples"])
def test_every_setting_runs(setting: Setting, actions: Any, contexts: Any) -> None:
    opt = Optimizer(actions, contexts, setting=setting, surrogate=FIXED)
    suggestions = run(opt, 3)
    for s in suggestions:
        assert s.context_index is None
        assert (s.context is not None) == isinstance(setting, Simulator)
        if s.context_point is not None:
            assert CONTEXTS.decode(s.context_point) == s.context
            encoded = CONTEXTS.encode("context", s.context).coordinates
            assert encoded == pytest.approx(s.context_point.coordinates, abs=1e-9)
    for r in (opt.recommend_iterate(), opt.recommend()):
        assert len(r.weights) == len(r.reference) == len(r.contexts)
        assert r.weights.sum() == pytest.approx(1.0)
        assert r.gap >= 0.0
        assert r.contexts[int(np.argmax(r.weights))].keys() == CONTEXTS.parameters.keys()


def coordinates(contexts: Any) -> np.ndarray:
    return np.array([CONTEXTS.encode("context", c).coordinates for c in contexts])


def default_gram(points: np.ndarray) -> np.ndarray:
    """Return the kernel of the default MMD on the unit cube: 0.2 sqrt(3) of each of three columns' range.

    Labels are equal, or one range apart; they take two coordinates.
    """
    r2 = ((points[:, None, :2] - points[None, :, :2]) ** 2).sum(axis=2)
    r2 += points[:, None, 2] != points[None, :, 2]
    return np.asarray(np.exp(-0.5 * r2 / (0.2**2 * 3)))


@pytest.mark.parametrize("radius", [0.1, 0.5, math.inf])
def test_the_certificate_holds_for_any_distribution_on_the_box(radius: float) -> None:
    """Against the same set with a thousand more contexts, and against what the mean says where it is worst."""
    opt = Optimizer(ACTIONS, SAMPLES, setting=Simulator(radius=radius, pick="uncertain"), surrogate=FIXED)
    run(opt, 8)
    r = opt.recommend()
    many = np.concatenate([coordinates(r.contexts), CONTEXTS.sample(1000, 5)])
    mean, variance = opt.posterior.predict(np.tile(r.action_point.coordinates, (len(many), 1)), many)
    p = np.append(r.reference, np.zeros(1000))
    brute = MMD(gram=default_gram(many)).worst_case(mean - 2.0 * np.sqrt(variance), p, radius)
    span = np.ptp(mean - 2.0 * np.sqrt(variance))
    assert r.value <= brute.expectation + 1e-9
    assert r.value + r.gap >= brute.expectation - 1e-9
    assert r.gap <= 0.1 * span


@pytest.mark.parametrize("setting", [DataDriven(), DataDriven(radius=0.3)], ids=repr)
def test_from_nothing_the_contexts_seen_become_the_reference(setting: Setting) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=FIXED)
    first = opt.ask()
    if setting.radius.radius(np.empty(0, dtype=np.intp), opt.configuration.placed, 1) == math.inf:  # type: ignore[attr-defined]
        assert first.radius == math.inf
    opt.tell(first, 0.3, context=nature(0))
    opt.tell(opt.ask(), 0.1, context=nature(1))
    second = opt.ask()
    used = np.flatnonzero(second.reference)
    assert second.reference[used].tolist() == [0.5, 0.5]
    r = opt.recommend()
    seen = coordinates([c for c, weight in zip(r.contexts, r.reference, strict=True) if weight == 0.5])
    expected = coordinates([nature(0), nature(1)])
    np.testing.assert_allclose(sorted(seen.tolist()), sorted(expected.tolist()), rtol=0.0, atol=1e-12)
    assert second.reference.sum() == pytest.approx(1.0)


def test_each_round_of_the_general_setting_has_its_own_samples() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    s = ask(opt, 7)
    assert s.radius == 0.2
    last = opt.recommend()
    sampled = [c["outdoor"] for c, weight in zip(last.contexts, last.reference, strict=True) if weight > 0.0]
    assert sorted(sampled) == pytest.approx([12.0, 17.0])
    assert last.radius == 0.2
    assert opt.recommend(reference=forecast(20), radius=0.0).value != last.value


def test_at_radius_zero_it_is_the_expectation_of_the_samples() -> None:
    opt = Optimizer(ACTIONS, SAMPLES, setting=Simulator(radius=0.0, pick="uncertain"), surrogate=FIXED)
    run(opt, 3)
    r = opt.recommend()
    points = coordinates(r.contexts)
    mean, variance = opt.posterior.predict(np.tile(r.action_point.coordinates, (len(points), 1)), points)
    assert r.value == pytest.approx(float(r.reference @ (mean - 2.0 * np.sqrt(variance))))
    assert r.gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "family",
    [
        drbo.Wasserstein(scale={"outdoor": 8.0, "load": 0.5, "season": 1.0}),
        drbo.Neighbourhood(),
        drbo.TotalVariation(),
        drbo.KL(),
        MMD(kernel=Matern((16.0, 1.8, 0.4, 0.4))),
    ],
    ids=["Wasserstein", "Neighbourhood", "TV", "KL", "rough MMD"],
)
def test_every_family_of_sets_saves_and_goes_on(family: Any, tmp_path: Path) -> None:
    opt = Optimizer(
        ACTIONS, SAMPLES, ambiguity=family, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
    )
    run(opt, 2)
    opt.save(tmp_path / "state.json")
    loaded = Optimizer.load(tmp_path / "state.json")
    for a, b in zip(run(opt, 2), run(loaded, 2), strict=True):
        assert a.action == b.action
        assert a.score == b.score
    assert opt.recommend().value == loaded.recommend().value


@pytest.mark.parametrize(
    ("setting", "surrogate"),
    [
        (General(), FIXED),
        pytest.param(SETTINGS[1], drbo.LearnedGP(), marks=pytest.mark.slow),
        (SETTINGS[2], drbo.LearnedGP()),
        (SETTINGS[3], FIXED),
    ],
    ids=repr,
)
def test_a_loaded_optimizer_goes_on_exactly(setting: Setting, surrogate: Any, tmp_path: Path) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=surrogate, seed=3)
    run(opt, 4)
    held = ask(opt, 4)
    opt.save(tmp_path / "state.json")
    loaded = Optimizer.load(tmp_path / "state.json")
    for some in (opt, loaded):
        tell(some, held, 4)
    for a, b in zip(run(opt, 2, 5), run(loaded, 2, 5), strict=True):
        assert (a.action, a.context, a.score) == (b.action, b.context, b.score)
    assert str(opt.recommend_iterate()) == str(loaded.recommend_iterate())
    assert str(opt.recommend()) == str(loaded.recommend())


@every_setting
def test_several_at_once_differ(setting: Setting) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=setting, surrogate=FIXED)
    run(opt, 3)
    several = [ask(opt, 3) for _ in range(3)]
    assert len({str((s.action, s.context)) for s in several}) == 3
    for s in reversed(several):
        tell(opt, s, 4)
    assert opt.n_told == 6


def test_the_model_learns_from_the_true_context() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), surrogate=FIXED)
    odd = {"outdoor": 1.2345678, "load": 0.98765, "season": "summer"}
    opt.tell({"setpoint": 20.0, "stages": 2}, 1.0, context=odd)
    (told,) = opt.history
    assert isinstance(told, Told)
    np.testing.assert_array_equal(told.contexts[0].coordinates, CONTEXTS.encode("context", odd).coordinates)
    assert opt.results[0].context == pytest.approx(odd)


def test_failures_and_minimising() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), maximize=False)
    for number in range(5):
        s = opt.ask()
        if number == 2:
            opt.tell(s, failed=True)
        else:
            opt.tell(s, -heating(s.action, nature(number)), context=nature(number))
    r = opt.recommend()
    assert r.gap >= 0.0
    assert "at most" in str(r)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"outdoor": 50.0, "load": 1.0, "season": "winter"}, r"context\['outdoor'\] must be from -10.0 to 30.0"),
        ({"outdoor": 5.0, "load": 1.0, "season": "autumn"}, r"context\['season'\] must be one of"),
        ({"outdoor": 5.0, "load": 1.0}, "context lacks season"),
        ([5.0, 1.0], "context must give outdoor, load, season"),
        (3.0, "context must give outdoor, load, season"),
    ],
)
def test_contexts_that_are_none(context: Any, message: str) -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.2), surrogate=FIXED)
    s = opt.ask()
    with pytest.raises(ValueError, match=message):
        opt.tell(s, 1.0, context=context)
    opt.tell(s, 1.0, context=[5.0, 1.0, "winter"])


def test_references_that_are_none() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    with pytest.raises(TypeError, match="reference is missing: the general setting needs"):
        opt.ask(radius=0.1)
    with pytest.raises(TypeError, match="reference is empty: give Samples"):
        opt.ask(reference=drbo.Samples([], within=CONTEXTS), radius=0.1)
    with pytest.raises(TypeError, match="reference must be Samples"):
        opt.ask(reference=np.full(128, 1 / 128), radius=0.1)
    with pytest.raises(ValueError, match="reference must give outdoor, load, season"):
        opt.ask(reference=drbo.Samples([1.0, 2.0]), radius=0.1)
    with pytest.raises(TypeError, match="reference must not be given"):
        Optimizer(ACTIONS, CONTEXTS, setting=DataDriven(radius=0.1), surrogate=FIXED).ask(reference=forecast(0))
    finite = Optimizer(GRID, GRID, ambiguity=MMD(GRID), setting=General(), surrogate=FIXED)
    with pytest.raises(TypeError, match="reference must be weights"):
        finite.ask(reference=forecast(0), radius=0.1)


def test_a_reference_that_was_refused_is_refused_again() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    wrong = drbo.Samples([1.0, 2.0])
    for _ in range(2):
        with pytest.raises(ValueError, match="reference must give outdoor, load, season"):
            opt.ask(reference=wrong, radius=0.1)
    assert opt.recommend().radius == 0.2


def test_another_set_in_between_does_not_change_the_last_one() -> None:
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General(), surrogate=FIXED)
    tell(opt, ask(opt, 0), 0)
    opt.recommend(reference=forecast(20), radius=0.5)
    last = opt.recommend()
    sampled = [c["outdoor"] for c, weight in zip(last.contexts, last.reference, strict=True) if weight > 0.0]
    assert sorted(sampled) == pytest.approx([10.0, 12.0])


def test_only_an_mmd_compresses() -> None:
    """In any other set nothing bounds what it costs: contexts seen are all kept, too many samples are refused."""
    line = drbo.Box(load=(0.0, 1.0))
    few = drbo.Samples([0.5], within=line, atoms=3)
    opt = Optimizer(GRID, few, ambiguity=drbo.TotalVariation(), setting=DataDriven(radius=0.1), surrogate=FIXED)
    for number in range(5):
        opt.tell(opt.ask(), 0.1 * number, context=[0.1 * number])
    assert opt.ask().radius == 0.1
    assert np.count_nonzero(opt.ask().reference) == 6
    general = Optimizer(GRID, line, ambiguity=drbo.TotalVariation(), setting=General(), surrogate=FIXED)
    many = np.linspace(0.0, 1.0, 301)
    with pytest.raises(ValueError, match="needs every sample as an atom"):
        general.ask(reference=drbo.Samples(many, within=line), radius=0.1)
    assert general.ask(reference=drbo.Samples(many, within=line, atoms=301), radius=0.1).radius == 0.1


def test_many_whole_numbers_are_not_listed_to_see_that_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(*_: Any) -> list[float]:
        raise AssertionError("no value needs to be encoded")

    monkeypatch.setattr(drbo.Integer, "encode", encode)
    assert not drbo.Box(users=drbo.Integer(0, 10_000)).continuous.any()


def test_a_certificate_made_anew_is_for_its_own_set() -> None:
    """General setting: after a refit the best iterate is certified for the samples and the radius of its own round."""
    opt = Optimizer(ACTIONS, CONTEXTS, setting=General())
    sets: dict[float, list[float]] = {}
    for number in range(8):
        s = opt.ask(reference=forecast(number), radius=0.02 if number % 2 else 0.3)
        sets[s.radius] = [*sets.get(s.radius, []), 10.0 + number]
        tell(opt, s, number)
        r = opt.recommend_iterate()
        sampled = [c["outdoor"] for c, weight in zip(r.contexts, r.reference, strict=True) if weight > 0.0]
        own = [outdoor for outdoor in sampled if outdoor != pytest.approx(12.0)] or [12.0]
        assert any(own[0] == pytest.approx(outdoor) for outdoor in sets[r.radius])
