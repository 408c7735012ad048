"""Limits of further outcomes: what is recommended, searched and told, against brute force on a grid.

The oracle has one optimizer per outcome, and the closed form of total variation: a mass of `radius` moves from the best
contexts to the worst one.
"""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import AtLeast, AtMost, Measured, NotReachedError, Optimizer, TheoreticalBeta, TotalVariation
from drbo.models.bounds import simultaneous
from drbo.validation import FloatArray

ACTIONS, CONTEXTS = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 5)
P = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
RADIUS = 0.15
GP = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), 0.05)
LIMITS = {"peak": AtMost(1.1, unit="degC"), "flow": AtLeast(0.2, probability=0.7)}


def cost(x: Any, c: Any) -> Any:
    return (x - 0.9) ** 2 + 0.3 * c


def peak(x: Any, c: Any) -> Any:
    return 0.4 + 0.9 * x * (1.2 - c)


def flow(x: Any, c: Any) -> Any:
    return x + 0.3 * c


def make(**more: Any) -> Optimizer:
    given: dict[str, Any] = {
        "ambiguity": TotalVariation(),
        "setting": drbo.Simulator(P, RADIUS),
        "surrogate": GP,
        "maximize": False,
        "limits": LIMITS,
        **more,
    }
    return Optimizer(ACTIONS, CONTEXTS, **given)


def values(x: float, c: float) -> dict[str, float]:
    return {"peak": peak(x, c), "flow": flow(x, c)}


def filled(opt: Optimizer, count: int, seed: int = 0) -> Optimizer:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, c = float(rng.choice(ACTIONS)), float(rng.choice(CONTEXTS))
        opt.tell(x, cost(x, c), context=c, limits=values(x, c))
    return opt


def alone(opt: Optimizer, name: str, sign: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation (9, 5) of one outcome, by an optimizer of its own, to be maximised."""
    own = Optimizer(
        ACTIONS,
        CONTEXTS,
        ambiguity=TotalVariation(),
        setting=drbo.Simulator(P, RADIUS),
        surrogate=GP,
        maximize=sign > 0,
    )
    for result in opt.results:
        value = result.outcome if name == "" else result.limits.get(name)
        if value is not None:
            number, error = (value.value, value.stderr) if isinstance(value, Measured) else (value, None)
            own.tell(result.action, number, context=result.context, stderr=error)
    told = [own.predict(x, CONTEXTS[:, None]) for x in ACTIONS]
    return sign * np.array([one.mean for one in told]), np.array([one.std for one in told])


def worst(values: FloatArray) -> float:
    """Return the worst-case expectation under total variation, by moving mass."""
    weights, left = P.copy(), RADIUS
    for j in np.argsort(-values):
        moved = min(weights[j], left)
        weights[j] -= moved
        left -= moved
    weights[np.argmin(values)] += RADIUS - left
    return float(weights @ values)


def oracle(opt: Optimizer, side: float, width: float = 2.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the worst case of each outcome's bound by action, (9,) each: cost, peak (maximised), chance of flow."""
    wide = simultaneous(width, 5)
    of = {name: alone(opt, name, sign) for name, sign in (("", -1.0), ("peak", -1.0), ("flow", 1.0))}
    bound = {name: mean + side * (wide if name == "flow" else width) * std for name, (mean, std) in of.items()}
    worsts = {name: np.array([worst(row) for row in rows]) for name, rows in bound.items()}
    likely = np.array([worst((row > 0.2) * 1.0) for row in bound["flow"]])
    return worsts[""], worsts["peak"], likely


@pytest.mark.parametrize("count", [8, 14, 25, 60])
def test_the_recommended_action_is_the_best_of_those_whose_limits_hold(count: int) -> None:
    opt = filled(make(), count)
    costs, peaks, likely = oracle(opt, -1.0)
    holds = (peaks >= -1.1) & (likely >= 0.7 - 1e-9)
    for i, x in enumerate(ACTIONS):
        one = opt.bound(x)
        assert one.value == pytest.approx(-costs[i], abs=1e-8)
        assert one.limits["peak"].value == pytest.approx(-peaks[i], abs=1e-8)
        assert one.limits["flow"].value == pytest.approx(likely[i], abs=1e-8)
        assert (one.limits["peak"].holds, one.limits["flow"].holds) == (peaks[i] >= -1.1, likely[i] >= 0.7 - 1e-9)
        assert (one.limits["peak"].threshold, one.limits["flow"].threshold) == (1.1, 0.7)
    if not holds.any():
        with pytest.raises(NotReachedError, match="no action is known to meet all limits") as caught:
            opt.recommend()
        margins = np.minimum(peaks + 1.1, likely - 0.7)
        assert caught.value.closest is not None
        assert caught.value.closest.action_index == np.argmax(margins)
        assert opt.under().regret_bound().value == math.inf
        return
    r = opt.recommend()
    assert r.action_index == np.argmax(np.where(holds, costs, -np.inf))
    assert all(limit.holds for limit in r.limits.values())
    for name, (mean, std) in {name: alone(opt, name, sign) for name, sign in (("", -1.0), ("peak", -1.0))}.items():
        weights = r.weights if name == "" else r.limits[name].weights
        assert weights @ (mean - 2.0 * std)[r.action_index] == pytest.approx(
            worst((mean - 2.0 * std)[r.action_index]), abs=1e-8
        )
    upper, may_peak, may_flow = oracle(opt, 1.0)
    may = (may_peak >= -1.1) & (may_flow >= 0.7 - 1e-9)
    reachable = np.where(may, upper, -np.inf).max()
    assert opt.under().regret_bound().reachable == pytest.approx(-reachable, abs=1e-8)


def test_some_counts_hold_and_some_do_not() -> None:
    """The test above would be empty otherwise."""
    held = []
    for count in (8, 14, 25, 60):
        _, peaks, likely = oracle(filled(make(), count), -1.0)
        held.append(bool(((peaks >= -1.1) & (likely >= 0.7 - 1e-9)).any()))
    assert set(held) == {False, True}


@pytest.mark.parametrize("count", [0, 5, 12, 40])
def test_the_search_is_among_actions_whose_limits_may_hold(count: int) -> None:
    opt = filled(make(policy=drbo.Optimism(drbo.Informative())), count)
    costs, peaks, likely = oracle(opt, 1.0)
    may = (peaks >= -1.1) & (likely >= 0.7 - 1e-9)
    assert may.any()
    s = opt.ask()
    assert s.action_index == np.argmax(np.where(may, costs, -np.inf))
    assert s.reason == "search"


def test_where_no_limits_may_hold_the_closest_action_is_asked_for() -> None:
    limits = {"peak": AtMost(0.2), "flow": AtLeast(0.2, probability=0.7)}
    opt = filled(make(limits=limits, policy=drbo.Optimism(drbo.Informative())), 60)
    _, peaks, likely = oracle(opt, 1.0)
    assert not (peaks >= -0.2).any()
    s = opt.ask()
    assert s.reason == "limits"
    assert "no action may meet all limits" in str(s)
    assert s.action_index == np.argmax(np.minimum(peaks + 0.2, likely - 0.7))
    assert bits(pickle.loads(pickle.dumps(opt)).pending) == bits(opt.pending)


def test_each_limit_has_its_own_worst_distribution() -> None:
    """Cost is worst where c is large, the peak where it is small. One adversary of their sum would see neither."""
    r = filled(make(), 60).recommend()
    mean = r.contexts[:, 0] @ r.weights
    of_peak = r.limits["peak"].contexts[:, 0] @ r.limits["peak"].weights
    assert mean > P @ CONTEXTS + 0.05
    assert of_peak < P @ CONTEXTS - 0.05
    text = " ".join(str(r).split())
    assert "peak at most" in text
    assert "degC on average in its worst distribution (the limit is 1.1 degC)" in text
    assert "flow at least 0.2 with a probability of at least" in text


def test_safe_suggestions_meet_their_limits_or_are_the_baseline() -> None:
    opt = make(baseline=0.25)
    first = opt.ask(safe=True)
    assert first.fallback
    assert first.action == 0.25
    opt.cancel(first)
    filled(opt, 40)
    _, peaks, likely = oracle(opt, -1.0)
    holds = (peaks >= -1.1) & (likely >= 0.7 - 1e-9)
    upper, _, _ = oracle(opt, 1.0)
    s = opt.ask(safe=True)
    assert not s.fallback
    assert s.action_index == np.argmax(np.where(holds, upper, -np.inf))
    with pytest.raises(TypeError, match="safe needs a baseline"):
        make().ask(safe=True)
    with pytest.raises(TypeError, match="safe needs limits"):
        make(limits=None, baseline=0.5).ask(safe=True)
    with pytest.raises(TypeError, match="safe must not be given with action"):
        opt.ask(safe=True, action=0.5)


def test_the_context_is_informative_for_what_is_open() -> None:
    """An objective that is known leaves the context to the limit that is open."""
    opt = make(limits={"peak": AtMost(1.1)}, policy=drbo.Optimism(drbo.Uncertain()))
    for c in CONTEXTS:
        for x in ACTIONS:
            opt.tell(x, cost(x, c), context=c, stderr=1e-4, limits={"peak": peak(x, c)} if c > 0.3 else None)
    s = opt.ask()
    one = opt.bound(s.action).limits["peak"]
    assert not one.holds
    variance = alone(opt, "peak", -1.0)[1][s.action_index] ** 2 + alone(opt, "", -1.0)[1][s.action_index] ** 2
    assert s.context_index == np.argmax(variance)
    assert s.context[0] == 0.0


@pytest.mark.parametrize("outer", [drbo.Informative(), drbo.Uncertain(), drbo.Pessimistic()])
def test_every_rule_picks_contexts_with_open_limits(outer: Any) -> None:
    opt = filled(make(policy=drbo.Optimism(outer)), 6)
    s = opt.ask(n_contexts=3)
    assert len(s.contexts) == 3
    opt.tell(s, [0.1, 0.2, 0.3], limits={"peak": [0.5, 0.6, 0.7], "flow": None})
    assert [result.limits for result in opt.results[-3:]] == [{"peak": 0.5}, {"peak": 0.6}, {"peak": 0.7}]


def test_forms_of_telling() -> None:
    opt = Optimizer(
        ACTIONS, ["calm", "storm"], setting=drbo.Simulator({"calm": 1, "storm": 2}, 0.1), surrogate=GP, limits=LIMITS
    )
    opt.tell(0.0, 1.0, context="calm", limits={"peak": 61.0})
    opt.tell(0.0, {"calm": 1.0, "storm": 2.0}, limits={"peak": {"storm": 62.0, "calm": 60.0}, "flow": None})
    opt.tell(0.5, None, limits={"flow": {"storm": Measured(3.0, stderr=0.5), "calm": Measured(4.0, stderr=0.2)}})
    opt.tell(0.5, [1.0, 2.0], contexts=["storm", "calm"], limits={"peak": np.array([5.0, 6.0])})
    opt.tell(0.5, failed=True, context="calm")
    told = [(one.outcome, one.context, one.limits, one.failed) for one in opt.results]
    assert told == [
        (1.0, "calm", {"peak": 61.0}, False),
        (1.0, "calm", {"peak": 60.0}, False),
        (2.0, "storm", {"peak": 62.0}, False),
        (None, "storm", {"flow": Measured(3.0, 0.5)}, False),
        (None, "calm", {"flow": Measured(4.0, 0.2)}, False),
        (1.0, "storm", {"peak": 5.0}, False),
        (2.0, "calm", {"peak": 6.0}, False),
        (None, "calm", {}, True),
    ]
    assert opt.n_told == 5
    frame = opt.to_frame()
    assert frame["peak"].tolist()[:3] == [61.0, 60.0, 62.0]
    assert frame["flow.stderr"].tolist()[3:5] == [0.5, 0.2]
    assert opt.leave_one_out("peak").outcome.tolist() == [61.0, 60.0, 62.0, 5.0, 6.0]


def test_a_standard_error_and_a_missing_value_reach_the_model() -> None:
    opt = make()
    opt.tell(0.5, 1.0, context=0.5, limits={"peak": Measured(2.0, stderr=1.0)})
    opt.tell(0.25, None, context=0.5, limits={"flow": 0.3})
    opt.tell(0.75, 0.2, context=0.0)
    for name, sign in (("", -1.0), ("peak", -1.0), ("flow", 1.0)):
        mean, std = alone(opt, name, sign)
        for i, x in enumerate(ACTIONS):
            one = opt.predict(x, CONTEXTS[:, None], outcome=name or None)
            np.testing.assert_allclose(sign * one.mean, mean[i], atol=1e-12)
            np.testing.assert_allclose(one.std, std[i], atol=1e-12)


def test_retract_and_amend() -> None:
    opt = filled(make(), 10)
    opt.tell(0.5, 1.0, context=0.5, limits={"peak": 7.0, "flow": 8.0})
    opt.amend(10, limits={"peak": 9.0})
    assert opt.results[-1].limits == {"peak": 9.0, "flow": 8.0}
    opt.amend(10, 2.0)
    assert (opt.results[-1].outcome, opt.results[-1].limits) == (2.0, {"peak": 9.0, "flow": 8.0})
    opt.amend(10, limits={"flow": None}, context=0.25)
    assert opt.results[-1].limits == {"peak": 9.0}
    with pytest.raises(ValueError, match=r"limits\['peak'\] must be given again"):
        opt.amend(10, [1.0, 2.0], contexts=[0.0, 0.5])
    opt.amend(10, [1.0, 2.0], contexts=[0.0, 0.5], limits={"peak": [3.0, 4.0]})
    assert [one.limits for one in opt.results[-2:]] == [{"peak": 3.0}, {"peak": 4.0}]
    opt.retract(10)
    again, never = opt.bound(0.5).limits, filled(make(), 10).bound(0.5).limits
    for name, limit in again.items():  # `trust.surprises` says that results were corrected
        assert (limit.value, limit.holds, bits(limit.weights)) == (
            never[name].value,
            never[name].holds,
            bits(never[name].weights),
        )


def test_files_copies_and_records(tmp_path: Path) -> None:
    opt = make(outcome="cost", unit="EUR", surrogate=None)
    rng = np.random.default_rng(3)
    for k in range(12):
        s = opt.ask()
        x, c = float(s.action[0]), float(s.context[0])
        if k == 5:
            opt.tell(s, failed=True)
        else:
            opt.tell(s, cost(x, c) + 0.01 * rng.normal(), limits=values(x, c) if k % 3 else {"peak": peak(x, c)})
    opt.tell(0.25, None, context=0.5, limits={"flow": Measured(0.4, stderr=0.1)})
    opt.ask()
    opt.save(tmp_path / "a.drbo")
    resumed = make(outcome="cost", unit="EUR", surrogate=None)
    resumed.resume(tmp_path / "a.drbo")
    replayed = make(outcome="cost", unit="EUR", surrogate=None)
    replayed.replay(opt.records())
    twins = [
        copy.deepcopy(opt),
        pickle.loads(pickle.dumps(opt)),
        Optimizer.load(tmp_path / "a.drbo"),
        resumed,
        replayed,
    ]
    answer = bits(opt.bound(0.5)), bits(opt.results), bits(opt.pending)
    following = bits(opt.ask())
    for twin in twins:
        assert (bits(twin.bound(0.5)), bits(twin.results), bits(twin.pending)) == answer
        assert bits(twin.ask()) == following
    with pytest.raises(ValueError, match="outcome 'peak'"):
        make(limits=None, surrogate=None).replay(opt.records())


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x, c = rng.random(30), rng.random(30)
    frame = pandas.DataFrame({"x": x, "c": c, "cost": cost(x, c), "peak": peak(x, c), "flow": flow(x, c)})
    frame.loc[3, "peak"] = np.nan
    frame.loc[4, "cost"] = np.nan
    frame.loc[5, ["cost", "peak", "flow"]] = np.nan
    frame["flow.stderr"] = 0.01
    opt = Optimizer.from_frame(
        frame, ["x"], ["c"], "cost", radius=0.05, maximize=False, limits={"peak": AtMost(1.2), "flow": AtLeast(0.1)}
    )
    assert opt.configuration.objective.name == "cost"
    assert opt.results[3].limits == {"flow": Measured(float(frame["flow"][3]), 0.01)}
    assert (opt.results[4].outcome, opt.results[4].failed) == (None, False)
    assert opt.results[5].failed
    again = opt.to_frame()
    assert list(again["cost"].dropna()) == list(frame["cost"].dropna())
    twin = Optimizer(**opt.configuration.arguments)
    twin.append(again, failed="failed", drawn=False)
    assert [one.limits for one in twin.results] == [one.limits for one in opt.results]
    twin.append(again[["x", "c", "cost"]], drawn=False)  # limits were not measured there
    assert twin.results[-1].limits == {}
    assert opt.recommend().limits["peak"].holds
    with pytest.raises(ValueError, match="limits must name columns of the frame"):
        Optimizer.from_frame(frame, ["x"], ["c"], "cost", radius=0.05, limits={"heat": AtMost(1.2)})


def test_outcomes_with_the_names_of_other_columns() -> None:
    pytest.importorskip("pandas")
    opt = make(limits={"time": AtMost(3.0), "action": AtLeast(0.0)}, outcome="failed")
    opt.tell(0.5, 1.0, context=0.5, limits={"time": Measured(2.0, stderr=0.5), "action": 4.0})
    opt.tell(0.5, failed=True, context=0.5)
    frame = opt.to_frame()
    assert frame["outcome.time"].tolist()[0] == 2.0
    assert frame["outcome.failed"].tolist()[0] == 1.0
    assert frame["failed"].tolist() == [False, True]
    assert frame["action.action"].tolist() == [0.5, 0.5]
    twin = make(limits={"time": AtMost(3.0), "action": AtLeast(0.0)}, outcome="failed")
    twin.append(frame, failed="failed", drawn=False)
    assert [one.limits for one in twin.results] == [{"time": Measured(2.0, 0.5), "action": 4.0}, {}]
    assert [one.outcome for one in twin.results] == [1.0, None]


def test_theory_shares_its_delta() -> None:
    beta = TheoreticalBeta(bound=2.0, noise=0.05, delta=0.1)
    opt = filled(make(beta=beta, limits={"peak": AtMost(1.1), "flow": AtLeast(0.2, beta=beta)}), 10)
    own = opt.configuration
    assert [one.bound_beta.delta for one in own.outcomes.values()] == pytest.approx([0.1 / 3] * 3)
    r = opt.bound(0.5)
    assert r.delta == pytest.approx(0.1)
    assert r.claim.proven
    assert all(limit.claim.proven and limit.word == "guaranteed" for limit in r.limits.values())
    gain = opt.posterior.information_gain  # type: ignore[attr-defined]
    assert r.beta == pytest.approx(math.sqrt(gain + 2.0 * math.log(3 / 0.1)) + 2.0)
    assert r.limits["peak"].beta == pytest.approx(r.beta)
    one = filled(make(beta=beta, limits={"outcome": AtMost(2.0, probability=0.9)}, baseline=0.0), 0)
    assert [rule.bound_beta.delta for rule in one.configuration.outcomes.values()] == [0.1]
    with pytest.raises(TypeError, match=r"limits\['peak'\]: beta must be a number for a surrogate that learns"):
        make(surrogate=None, limits={"peak": AtMost(1.0, beta=beta)})


def test_each_limit_may_have_a_model_and_a_width_of_its_own() -> None:
    big = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), 0.05, scale=10.0)
    opt = make(limits={"peak": AtMost(11.0, surrogate=big, beta=1.0), "flow": AtLeast(0.2)})
    plain = make(limits={"peak": AtMost(1.1), "flow": AtLeast(0.2)}, beta=1.0)
    for x in ACTIONS[::2]:
        for c in CONTEXTS[::2]:
            opt.tell(x, cost(x, c), context=c, limits={"peak": 10.0 * peak(x, c)})
            plain.tell(x, cost(x, c), context=c, limits={"peak": peak(x, c)})
    assert opt.bound(0.5).limits["peak"].value == pytest.approx(10.0 * plain.bound(0.5).limits["peak"].value)
    with pytest.raises(TypeError, match=r"limits\['peak'\].surrogate must use the coordinates"):
        Optimizer(
            10.0 * ACTIONS,
            CONTEXTS,
            setting=drbo.Simulator(P, RADIUS),
            surrogate=GP,
            limits={"peak": AtMost(1.0, surrogate=drbo.LearnedGP())},
        )


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    """A learned model is in the units of its outcome."""
    chosen = []
    for factor in (1.0, scale):
        opt = make(
            surrogate=None, limits={"peak": AtMost(1.1 * factor), "flow": AtLeast(0.2 / factor, probability=0.7)}
        )
        for k in range(10):
            s = opt.ask(action=ACTIONS[[1, 5, 8][k]] if k < 3 else None)
            x, c = float(s.action[0]), float(s.context[0])
            opt.tell(s, cost(x, c) * factor, limits={"peak": peak(x, c) * factor, "flow": flow(x, c) / factor})
            chosen.append((s.action_index, s.context_index))
    assert chosen[:10] == chosen[10:]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"limits": {"peek": 1.0}}, "limits must map names of limited outcomes, peak, flow, to values, got 'peek'"),
        ({"limits": {"outcome": 1.0}}, "the objective: its value is the outcome"),
        ({"limits": [1.0]}, "limits must map names to values"),
        ({"limits": {"peak": math.nan}}, r"limits\['peak'\] must be finite"),
        ({"limits": {"peak": "hot"}}, r"limits\['peak'\] must be a number"),
        ({"limits": {"peak": [1.0, 2.0]}}, r"limits\['peak'\] must hold one number per context, 1, got 2"),
        ({"limits": {"peak": {0.5: 1.0}}}, r"limits\['peak'\] must have the form of outcome"),
        ({"limits": {"peak": [1.0, Measured(1.0, 0.1)]}}, "a standard error for all contexts or for none"),
        (
            {"limits": {"peak": 1.0}, "failed": True, "outcome": None},
            "failed=True must not be given with an outcome or limits",
        ),
        ({"outcome": None}, "tell needs an outcome or limits, or failed=True for"),
        ({"outcome": None, "stderr": 0.1, "limits": {"peak": 1.0}}, r"a limit takes a drbo\.Measured"),
        ({"outcome": {"outcome": 1.0, "peak": 60.0}, "context": None}, r"tell\(s, outcome, limits=\{'peak': value\}\)"),
    ],
)
def test_bad_tellings(arguments: dict[str, Any], match: str) -> None:
    opt = make()
    with pytest.raises((TypeError, ValueError), match=match):
        opt.tell(0.5, **{"outcome": 1.0, "context": 0.5, **arguments})
    assert opt.history == ()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"limits": {}}, "limits must map names to limits"),
        ({"limits": {"peak": 3.0}}, r"limits\['peak'\] must be a drbo\.AtMost"),
        ({"limits": {1: AtMost(3.0)}}, "got 1 as a name"),
        ({"limits": {"outcome": AtLeast(3.0)}}, "limits the objective itself, so it must be a drbo.AtMost"),
        ({"limits": {"outcome": AtMost(3.0, beta=2.0)}}, "whose surrogate and beta are those of the optimizer"),
        ({"outcome": 3}, "outcome must be the name of the outcome"),
        ({"unit": 3}, "unit must be a text"),
    ],
)
def test_bad_limits(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        make(**arguments)


def test_what_limits_refuse() -> None:
    opt = filled(make(), 10)
    for call, match in (
        (opt.recommend_iterate, "has no limits: call recommend"),
        (lambda: opt.under().recommend_for(1.0), "no set in which limits could hold"),
        (lambda: opt.under().backtest([0.1], 3, past=[0.0, 0.5, 1.0, 0.25]), "with limits"),
        (lambda: make(limits=None).tell(0.5, 1.0, context=0.5, limits={"peak": 1.0}), "this optimizer has none"),
        (lambda: AtMost(1.0, of="outcome"), "of must not be given without a probability"),
    ):
        with pytest.raises(TypeError, match=match):
            call()
    for wrong in ({"outcome": "peek"}, {"outcome": 3}):
        with pytest.raises(ValueError, match="outcome must be one of outcome, peak, flow"):
            opt.predict(0.5, 0.5, **wrong)
    never = make()
    never.tell(0.5, 1.0, context=0.5)
    with pytest.raises(NotReachedError, match="limit of peak: none of its values has been told"):
        never.recommend()


def test_an_outcome_is_called_by_its_name_and_unit() -> None:
    opt = filled(make(outcome="cost", unit="EUR", limits={**LIMITS, "cost": AtMost(5.0)}), 40)
    r = opt.recommend()
    assert set(r.limits) == {"peak", "flow", "cost"}
    assert r.limits["cost"].value == pytest.approx(r.value)
    assert r.limits["cost"].unit == "EUR"
    assert ": cost at most" in r.statement
    assert r.statement.endswith("EUR")
    assert "cost" in opt.to_frame()
    assert opt.predict(0.5, 0.5, outcome="cost") == opt.predict(0.5, 0.5)
    assert "the model expects" in str(r)
    assert "EUR on average under the reference" in str(r)
    assert "EUR from the best action" in str(opt.under().regret_bound())
    assert "degC under the reference" in str(opt.under().compare(0.5, 0.25, outcome="peak"))
    assert "40 values of peak lie" in str(opt.leave_one_out("peak"))
    assert "40 values of cost lie" in str(opt.leave_one_out())


def test_probabilities_and_quantiles_of_a_limited_outcome() -> None:
    opt = filled(make(), 30)
    for i, x in enumerate(ACTIONS[::3]):
        one = opt.bound(x).limits["flow"]
        found = opt.under().probability(x, above=0.2, outcome="flow")
        assert found.lower == pytest.approx(one.value, abs=1e-9), i
        assert opt.under().probability(x, below=1.1, outcome="peak").upper <= 1.0
        least = opt.under().value_at_risk(x, 0.3, outcome="peak")
        assert not least.maximize
        assert opt.under().probability(x, below=least.value + 1e-9, outcome="peak").lower >= 0.7 - 1e-9


def test_the_profile_keeps_the_limits() -> None:
    opt = filled(make(limits={"peak": AtMost(1.0), "flow": AtLeast(0.55, probability=0.7)}), 100)
    found = opt.under().profile([0.0, RADIUS, 0.9])
    r = opt.recommend()
    assert found.actions[1] == r.action
    assert found.bound[1] == pytest.approx(r.value)
    assert found.limits["peak"][1] == pytest.approx(r.limits["peak"].value)
    assert found.actions[2] is None
    assert math.isnan(found.bound[2])
    assert found.to_frame()["limit peak"][1] == found.limits["peak"][1]


@pytest.mark.parametrize("surrogate", [GP, None])
def test_verdicts_of_limits(surrogate: Any) -> None:
    """A limit is a guess where its worst distribution lies where nobody has measured it."""
    opt = make(surrogate=surrogate, limits={"peak": AtMost(2.0)})
    for x in ACTIONS[:6]:
        for c in CONTEXTS:
            opt.tell(x, cost(x, c), context=c, limits={"peak": peak(x, c)} if c >= 0.5 else None)
    one = opt.bound(0.5).limits["peak"]
    assert one.trust.verdict == "extrapolated"
    assert one.word == "a guess"
    assert "tried in conditions such as 0; bad outcomes" in str(opt.bound(0.5)).replace("\n  ", " ")
    assert one.check.context[0] == 0.0
    for x in ACTIONS[:6]:
        for c in CONTEXTS[:2]:
            opt.tell(x, None, context=c, limits={"peak": peak(x, c)})
    assert opt.bound(0.5).limits["peak"].trust.verdict == "checked"


def test_every_second_suggestion_of_checked_approaches_limits_from_the_inside() -> None:
    opt = make(policy=drbo.Checked(drbo.Optimism(drbo.Informative())), limits={"peak": AtMost(1.1)})
    rng = np.random.default_rng(0)
    for _ in range(12):
        x, c = float(rng.choice(ACTIONS)), float(rng.choice(CONTEXTS))
        opt.tell(x, cost(x, c), context=c, limits={"peak": peak(x, c)})
    (mean, std), (centre, width) = alone(opt, "", -1.0), alone(opt, "peak", -1.0)
    costs = np.array([worst(row) for row in mean + 2.0 * std])
    chosen = []
    for view in (2.0, -2.0 / 3.0):  # the optimistic bound of the search, and a third of the width of a recommendation
        peaks = np.array([worst(row) for row in centre + view * width])
        s = opt.ask()
        chosen.append(s.action_index)
        assert s.action_index == np.argmax(np.where(peaks >= -1.1, costs, -np.inf))
        opt.cancel(s)
    assert chosen[0] != chosen[1]


def test_limits_that_no_action_is_likely_to_meet_are_approached_by_their_means() -> None:
    """The first 2 (d + 1) evaluations are of different actions, although the bound is best where one was tried."""
    short = drbo.GP(drbo.Product(drbo.RBF(0.1), drbo.RBF(0.5)), 0.05)
    opt = make(policy=drbo.Checked(drbo.Optimism(drbo.Informative())), surrogate=short, limits={"peak": AtMost(-0.1)})
    asked = []
    for _ in range(6):
        s = opt.ask()
        asked.append(s.action_index)
        opt.tell(s, cost(s.action, s.context), limits={"peak": peak(s.action, s.context) - 0.4})
    assert len(set(asked[:5])) == 5
    assert asked[5] == 0  # the smallest peak


def test_a_limit_of_a_learned_outcome_has_bounds_of_two_deviations_unless_said_otherwise() -> None:
    def betas(**more: Any) -> tuple[float, float]:
        r = filled(make(surrogate=None, **more), 12).bound(0.5)
        return r.beta, r.limits["peak"].beta

    assert betas() == (3.0, 2.0)
    assert betas(bound_beta=2.5) == (2.5, 2.5)
    assert betas(limits={"peak": AtMost(1.1, beta=4.0), "flow": LIMITS["flow"]}) == (3.0, 4.0)


def test_a_check_looks_where_a_limit_would_do_worst() -> None:
    """The cost is worst where c is large, which was evaluated; the peak where c is small, which was not."""
    opt = make(surrogate=None, bound_beta=3.0, limits={"peak": AtMost(1.9)})
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, c = float(rng.choice(ACTIONS)), float(rng.choice(CONTEXTS[2:]))
        opt.tell(x, cost(x, c), context=c, limits={"peak": peak(x, c)})
    reasons = [opt.ask() for _ in range(4)]
    checks = [s for s in reasons if s.reason == "verify"]
    assert [float(s.context[0]) for s in checks] == [0.0]


def test_the_verdict_on_a_limit_with_a_probability_counts_untried_conditions_as_failures() -> None:
    opt = make(limits={"flow": AtLeast(0.2, probability=0.7)})
    for c in CONTEXTS[:2]:
        opt.tell(ACTIONS[8], cost(1.0, c), context=c, limits={"flow": flow(1.0, c)})
    for c in CONTEXTS:
        opt.tell(ACTIONS[0], cost(0.0, c), context=c, limits={"flow": flow(0.0, c)})
    limit = opt.bound(ACTIONS[8]).limits["flow"]
    chance = opt.under().probability(ACTIONS[8], above=0.2, outcome="flow").lower
    assert limit.trust.guess == pytest.approx(limit.value) == pytest.approx(chance)
    # Contexts 0 and 0.25 were tried, and 0.5 is within 0.3 of these, but beyond both: it and the others may fail.
    assert limit.trust.stressed == pytest.approx(P[:2].sum() - RADIUS, abs=1e-9)
    assert limit.trust.verdict == "extrapolated"
