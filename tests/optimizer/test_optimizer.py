"""Ask, tell, recommend: the three settings end to end, pending suggestions, and every bad input."""

import copy
import dataclasses
import itertools
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from drbo import (
    GP,
    MMD,
    AmbiguitySet,
    DataDriven,
    Expectation,
    General,
    Neighbourhood,
    Optimizer,
    Setting,
    Simulator,
    Suggestion,
    TheoreticalBeta,
)
from drbo.radius import Theoretical
from drbo.rounds.grid import TIE, robust_scores
from tolerances import CLOSED_FORM

PACKAGE = str(Path(drbo.__file__).parent)
SET = MMD(robos.C, robos.MMD_KERNEL)
SURROGATE = GP(robos.GP_KERNEL, noise=0.05)
SETTINGS: list[Setting] = [
    General(),
    DataDriven(radius=Theoretical(factor=0.1)),
    Simulator(robos.REFERENCE, robos.RADIUS),
    Simulator(robos.REFERENCE, robos.RADIUS, pick="informative"),
]


def make(setting: Setting, ambiguity: AmbiguitySet = SET, beta: Any = 2.0) -> Optimizer:
    return Optimizer(robos.X, robos.C, ambiguity=ambiguity, setting=setting, surrogate=SURROGATE, beta=beta)


def ask(opt: Optimizer) -> Suggestion:
    if isinstance(opt.setting, General):
        return opt.ask(reference=robos.REFERENCE, radius=robos.RADIUS)
    return opt.ask()


def tell(opt: Optimizer, s: Suggestion, rng: np.random.Generator) -> None:
    """Answer with a noisy outcome; nature draws the context from the true distribution unless the setting picked it."""
    noise = 0.05 * rng.normal()
    j = rng.choice(len(robos.C), p=robos.TRUTH)
    if s.context_index is None:
        opt.tell(s, robos.F[s.action_index, j] + noise, context=robos.C[j])
    else:
        opt.tell(s, robos.F[s.action_index, s.context_index] + noise)


def run(opt: Optimizer, rounds: int, seed: int = 0) -> list[Suggestion]:
    rng = np.random.default_rng(seed)
    suggestions = []
    for _ in range(rounds):
        suggestions.append(ask(opt))
        tell(opt, suggestions[-1], rng)
    return suggestions


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_each_setting_end_to_end(setting: Setting) -> None:
    """On the RoBOS function the optimizer settles on the robust optimum of the set that it is robust to."""
    opt = make(setting)
    suggestions = run(opt, 150)
    last = suggestions[-1]
    scores = robust_scores(robos.F, SET, last.reference, last.radius)
    tail = [s.action_index for s in suggestions[-30:]]
    assert max(set(tail), key=tail.count) == np.argmax(scores)
    for r in (opt.recommend(), opt.recommend_final()):
        assert r.action == robos.X[r.action_index]
        assert SET.distance(r.weights, r.reference) <= r.radius + 1e-9
        assert r.value <= robust_scores(robos.F, SET, r.reference, r.radius)[r.action_index]
    if not isinstance(setting, DataDriven):
        assert opt.recommend().action == opt.recommend_final().action == -2.5


@pytest.mark.parametrize(("ambiguity", "expected"), [(Expectation(), 2.5), (Neighbourhood(robos.C), 2.5)], ids=repr)
def test_baselines_find_their_own_optimum(ambiguity: AmbiguitySet, expected: float) -> None:
    """Stochastic UCB and StableOpt (radius 0.43: only the contexts next to the mean) are lured by the high ridge."""
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS), ambiguity)
    run(opt, 100)
    assert opt.recommend().action == expected


def test_stableopt_with_an_infinite_radius_is_the_worst_case() -> None:
    opt = make(Simulator(robos.REFERENCE, np.inf), Neighbourhood(robos.C))
    run(opt, 150)
    assert robos.X[np.argmax(robos.F.min(axis=1))] == -0.5
    assert opt.recommend().action == -0.5


def literal_drbo(rounds: int, seed: int) -> list[tuple[int, int]]:
    """Algorithm 2 written down from the paper: from-scratch posterior, exhaustive argmax, no code of the optimizer."""
    rng = np.random.default_rng(seed)
    x, c = robos.X[:, None], robos.C[:, None]
    kx, kc = robos.GP_KERNEL.action, robos.GP_KERNEL.context
    K = np.kron(kx(x, x), kc(c, c))
    chosen: list[tuple[int, int]] = []
    outcomes: list[float] = []
    for _ in range(rounds):
        S = [i * len(c) + j for i, j in chosen]
        A = K[np.ix_(S, S)] + 0.05**2 * np.eye(len(S))
        mean = K[:, S] @ np.linalg.solve(A, outcomes) if S else np.zeros(len(K))
        variance = np.diag(K) - (np.einsum("ij,ji->i", K[:, S], np.linalg.solve(A, K[S])) if S else 0.0)
        std = np.sqrt(np.maximum(variance, 0)).reshape(len(x), len(c))
        ucb = mean.reshape(len(x), len(c)) + 2 * std
        scores = SET.worst_case(ucb, robos.REFERENCE, robos.RADIUS).expectation
        i = int(np.argmax(scores >= scores.max() - TIE * np.ptp(ucb)))
        j = int(np.argmax(std[i] ** 2 >= (std[i] ** 2).max() - TIE))
        noise = 0.05 * rng.normal()
        rng.choice(len(c), p=robos.TRUTH)
        chosen.append((i, j))
        outcomes.append(robos.F[i, j] + noise)
    return chosen


def test_the_loop_is_algorithm_2() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    suggestions = run(opt, 40)
    assert [(s.action_index, s.context_index) for s in suggestions] == literal_drbo(40, 0)


def test_informative_contexts_are_those_of_the_formula() -> None:
    """The dense posterior covariance of f(x_t, .), one evaluation under way included; no code of the optimizer."""
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="informative"))
    told = run(opt, 15)
    under_way = opt.ask()
    s = opt.ask()
    points = [(t.action_index, t.context_index) for t in [*told, under_way]]
    x, c = robos.X[[i for i, _ in points], None], robos.C[[j for _, j in points], None]
    kx, kc = robos.GP_KERNEL.action, robos.GP_KERNEL.context
    own, C = robos.X[[s.action_index], None], robos.C[:, None]
    k = kx(x, own) * kc(c, C)
    A = kx(x, x) * kc(c, c) + 0.05**2 * np.eye(len(points))
    covariance = kx.variance * kc(C, C) - k.T @ np.linalg.solve(A, k)
    lcb = opt.posterior.mean[s.action_index] - 2.0 * np.sqrt(np.diag(covariance))
    w = SET.worst_case(lcb, robos.REFERENCE, robos.RADIUS).weights
    reduction = (covariance @ w) ** 2 / (np.diag(covariance) + 0.05**2)
    assert s.context_index == np.argmax(reduction)
    assert s.context_index != np.argmax(np.diag(covariance))  # the paper's rule would do otherwise


def test_recommendation_is_equation_10() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    rng = np.random.default_rng(1)
    best, best_action = -np.inf, -1
    for _ in range(60):
        posterior = opt.posterior.copy()
        s = opt.ask()
        lcb = (posterior.mean - 2.0 * posterior.std)[s.action_index]
        value = float(SET.worst_case(lcb, robos.REFERENCE, robos.RADIUS).lower_bound)
        if value > best:
            best, best_action = value, s.action_index
        assert opt.recommend().value == pytest.approx(best, abs=CLOSED_FORM)
        assert opt.recommend().action_index == best_action
        tell(opt, s, rng)
    lcb = opt.posterior.mean - 2.0 * opt.posterior.std
    scores = robust_scores(lcb, SET, robos.REFERENCE, robos.RADIUS)
    assert opt.recommend_final().action_index == np.argmax(scores)
    assert opt.recommend_final().value == pytest.approx(scores.max(), abs=1e-8)


def test_general_recommendation_is_for_the_last_set_or_the_one_given() -> None:
    opt = make(General())
    run(opt, 30)
    assert opt.recommend_final().radius == robos.RADIUS
    assert opt.recommend_final(robos.TRUTH, 0.0).radius == 0.0


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_the_same_state_gives_the_same_suggestion(setting: Setting) -> None:
    one, two = make(setting), make(setting)
    run(one, 12)
    run(two, 12)
    twin = copy.deepcopy(one)
    for _ in range(3):  # also with suggestions pending
        a, b, c = ask(one), ask(two), ask(twin)
        assert a.same_as(b)
        assert a.same_as(c)


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_open_suggestions_are_taken_into_account(setting: Setting) -> None:
    """Without results the asks must not repeat one evaluation: pending ones shrink the variance where they are."""
    opt = make(setting)
    run(opt, 5)
    asked = [ask(opt) for _ in range(10)]
    assert len(opt.pending) == 10
    assert len({(s.action_index, s.context_index) for s in asked}) > 3
    if setting.picks_context:
        assert all(
            (a.action_index, a.context_index) != (b.action_index, b.context_index) for a, b in itertools.pairwise(asked)
        )


def test_pending_ones_count_as_if_observed_at_their_mean() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    run(opt, 10)
    first = opt.ask()
    assert first.context is not None
    told = copy.deepcopy(opt)
    mean, _ = told.posterior.predict(first.action[None], first.context[None])
    told.tell(first, float(mean[0]))
    assert opt.ask().action_index == told.ask().action_index


def test_pending_ones_never_enter_a_certificate() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    for _ in range(30):
        opt.ask()
    lcb = -2.0 * np.ones(len(robos.C))  # the prior is all that is known
    assert opt.recommend().value == pytest.approx(float(lcb[0]), abs=CLOSED_FORM)
    assert opt.posterior.n_observations == 0


def test_results_in_any_order_and_cancelled_ones() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    rng = np.random.default_rng(0)
    a, b, c = opt.ask(), opt.ask(), opt.ask()
    tell(opt, c, rng)
    opt.cancel(a)
    tell(opt, b, rng)
    assert opt.pending == ()
    assert opt.posterior.n_observations == 2


def test_a_suggestion_may_come_back_from_another_process() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    opt.tell(pickle.loads(pickle.dumps(opt.ask())), 0.3)
    assert opt.posterior.n_observations == 1


def test_a_context_by_value_or_by_index() -> None:
    one, two = make(General()), make(General())
    one.tell(ask(one), 0.5, context=robos.C[7])
    two.tell(ask(two), 0.5, context_index=7)
    np.testing.assert_array_equal(one.posterior.mean, two.posterior.mean)


def test_theoretical_beta_uses_the_settings_constant() -> None:
    beta = TheoreticalBeta(bound=1.0, noise=0.05, delta=0.1)
    for setting, events in zip(SETTINGS, (2, 3, 1, 1), strict=True):
        opt = make(setting, beta=beta)
        s = ask(opt)
        expected = beta.width(0.0, 0.05**2, events)
        assert s.score == pytest.approx(expected, abs=CLOSED_FORM)  # the prior: mean 0, variance 1 everywhere


def state(opt: Optimizer) -> tuple[Any, ...]:
    return (
        opt.posterior.mean.copy(),
        opt.posterior.variance.copy(),
        opt.posterior.n_observations,
        [s.number for s in opt.pending],
        opt._best,
        opt._asked,
        len(opt._model.observations),
    )


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and a[2:] == b[2:]


W = robos.REFERENCE
BAD_ASKS = [
    ({}, "reference is missing"),
    ({"reference": W}, "radius is missing"),
    ({"reference": W[:-1], "radius": 0.1}, "reference must hold 50 weights"),
    ({"reference": W * 1.0001, "radius": 0.1}, "reference must sum to 1"),
    ({"reference": W - 1e-3, "radius": 0.1}, "reference must not be negative"),
    ({"reference": np.full(50, np.nan), "radius": 0.1}, "reference must be finite"),
    ({"reference": W[None], "radius": 0.1}, "reference must have 1 dimension"),
    ({"reference": W, "radius": -0.1}, "radius must be zero or more"),
    ({"reference": W, "radius": float("nan")}, "radius must be zero or more"),
    ({"reference": W, "radius": "0.1"}, "radius must be a number"),
    ({"reference": "uniform", "radius": 0.1}, "reference must be an array of numbers"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ASKS, ids=[m for _, m in BAD_ASKS])
def test_bad_asks_change_nothing(arguments: dict[str, Any], message: str) -> None:
    opt = make(General())
    run(opt, 3)
    before = state(opt)
    with pytest.raises((TypeError, ValueError), match=message):
        opt.ask(**arguments)
    assert same(state(opt), before)


BAD_TELLS: list[tuple[dict[str, Any], str]] = [
    ({"outcome": float("nan"), "context_index": 0}, "outcome must be finite"),
    ({"outcome": float("inf"), "context_index": 0}, "outcome must be finite"),
    ({"outcome": "good", "context_index": 0}, "outcome must be a number"),
    ({"outcome": [1.0], "context_index": 0}, "outcome must be a number"),
    ({"outcome": 1.0}, "tell needs the observed context"),
    ({"outcome": 1.0, "context": 0.1, "context_index": 0}, "tell needs the observed context"),
    ({"outcome": 1.0, "context": 0.1}, r"context must be one of the contexts, got \[0.1\]; the nearest one is"),
    ({"outcome": 1.0, "context": float("nan")}, "context must be finite"),
    ({"outcome": 1.0, "context": [0.1, 0.2]}, "context must be a point of 1 dimension"),
    ({"outcome": 1.0, "context_index": 50}, "context_index must be from 0 to 49"),
    ({"outcome": 1.0, "context_index": -1}, "context_index must be from 0 to 49"),
    ({"outcome": 1.0, "context_index": 1.5}, "context_index must be an integer"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_TELLS, ids=[m for _, m in BAD_TELLS])
def test_bad_tells_change_nothing(arguments: dict[str, Any], message: str) -> None:
    opt = make(General())
    run(opt, 3)
    s = ask(opt)
    before = state(opt)
    with pytest.raises((TypeError, ValueError), match=message):
        opt.tell(s, **arguments)
    assert same(state(opt), before)
    opt.tell(s, 0.1, context_index=0)


def test_a_context_is_refused_where_the_setting_picked_it() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS))
    s = opt.ask()
    for given in ({"context": robos.C[0]}, {"context_index": 0}):
        with pytest.raises(TypeError, match="context must not be given"):
            opt.tell(s, 0.1, **given)
    assert opt.pending == (s,)


def test_unknown_and_repeated_suggestions() -> None:
    opt, other = make(General()), make(General())
    s = ask(opt)
    opt.tell(s, 0.1, context_index=0)
    with pytest.raises(ValueError, match="suggestion 0 has been told or cancelled already"):
        opt.tell(s, 0.1, context_index=0)
    with pytest.raises(ValueError, match="suggestion 0 has been told or cancelled already"):
        opt.cancel(s)
    with pytest.raises(ValueError, match="suggestion 0 is not one of this optimizer's"):
        other.tell(s, 0.1, context_index=0)
    with pytest.raises(TypeError, match="suggestion must be what ask returned"):
        opt.tell("first", 0.1, context_index=0)
    assert opt.posterior.n_observations == 1


def test_recommend_needs_an_ask() -> None:
    with pytest.raises(RuntimeError, match="call ask first"):
        make(General()).recommend()
    with pytest.raises(TypeError, match="reference is missing"):
        make(General()).recommend_final()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": []}, "actions must be points of shape"),
        ({"actions": [[np.nan]]}, "actions must be finite"),
        ({"contexts": np.zeros((2, 2, 2))}, "contexts must be points of shape"),
        ({"contexts": robos.C[:-1]}, "ambiguity is for 50 contexts, but there are 49"),
        ({"ambiguity": 0.1}, "ambiguity must be an AmbiguitySet, or a function"),
        ({"setting": "general"}, "setting must be General"),
        ({"surrogate": robos.GP_KERNEL}, "surrogate must be a GP or a LearnedGP"),
        ({"beta": -1.0}, "beta must be zero or more"),
        ({"beta": "2"}, "beta must be a number"),
        ({"seed": 1.7}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"ambiguity": drbo.KL}, "ambiguity must be a set, or a function from contexts to one"),
    ],
)
def test_bad_construction(arguments: dict[str, Any], message: str) -> None:
    good = {"actions": robos.X, "contexts": robos.C, "ambiguity": SET, "setting": General(), "surrogate": SURROGATE}
    with pytest.raises((TypeError, ValueError), match=message):
        Optimizer(**{**good, **arguments})


def test_the_contract_snippet_of_the_design() -> None:
    actions, contexts = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 10)[:, None]
    w, eps = np.full(10, 0.1), 0.2
    for setting in (drbo.General(), drbo.DataDriven(delta=0.1), drbo.Simulator(w, eps)):
        opt = drbo.Optimizer(
            actions,
            contexts,
            ambiguity=drbo.MMD(contexts, kernel=drbo.RBF(0.1)),
            setting=setting,
            surrogate=drbo.GP(kernel=drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), noise=0.05),
            beta=drbo.TheoreticalBeta(bound=1.0, noise=0.05, delta=0.1),
            seed=0,
        )
        s = opt.ask(reference=w, radius=eps) if isinstance(setting, drbo.General) else opt.ask()
        assert s.action.shape == (1,)
        assert s.action_index == int(np.flatnonzero(actions[:, 0] == s.action)[0])
        if setting.picks_context:
            assert s.context is not None
            opt.tell(s, 1.0)
        else:
            assert s.context is None
            assert s.context_index is None
            opt.tell(s, 1.0, context=contexts[3])
        r = opt.recommend()
        assert r.action.shape == (1,)
        assert np.isfinite(r.value)
        assert r.weights.shape == (10,)


def test_a_reference_that_the_caller_changes_later_is_not_ours() -> None:
    """One buffer for all references, updated in place: a common pattern of streaming code."""
    one, two, buffer = make(General()), make(General()), np.empty(50)
    rng = np.random.default_rng(0)
    for t in range(10):
        buffer[:] = rng.dirichlet(np.full(50, 0.3))
        a, b = one.ask(buffer, 0.1), two.ask(buffer.copy(), 0.1)
        assert a.same_as(b)
        one.tell(a, float(np.sin(a.action[0])), context_index=t)
        two.tell(b, float(np.sin(a.action[0])), context_index=t)


def test_what_is_handed_out_cannot_be_changed() -> None:
    given = robos.REFERENCE.copy()
    opt = make(Simulator(given, robos.RADIUS))
    given[:] = 0.02
    s = opt.ask()
    np.testing.assert_array_equal(s.reference, robos.REFERENCE)
    for array in (s.reference, s.action, opt.recommend().weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_an_outcome_that_would_break_the_model_is_refused() -> None:
    opt = make(General())
    s = ask(opt)
    with pytest.raises(ValueError, match="outcome must not exceed 1e\\+100"):
        opt.tell(s, 1e301, context_index=0)
    opt.tell(s, 1e3, context_index=0)
    ask(opt)


def test_misfits_are_found_when_the_optimizer_is_made() -> None:
    wrong = GP(drbo.Product(drbo.RBF((0.1, 0.2)), drbo.RBF(0.1)), 0.1)
    with pytest.raises(ValueError, match="lengthscale has 2 entries, but the points have 1"):
        Optimizer(robos.X, robos.C, ambiguity=SET, setting=General(), surrogate=wrong)
    with pytest.raises(ValueError, match="reference must hold 50 weights"):
        make(Simulator([0.5, 0.5], 0.1))


def same_state(one: Optimizer, other: Optimizer) -> None:
    assert one.n_told == other.n_told
    assert [s.number for s in one.pending] == [s.number for s in other.pending]
    np.testing.assert_array_equal(one.posterior.mean, other.posterior.mean)
    np.testing.assert_array_equal(one.posterior.variance, other.posterior.variance)
    assert one.posterior.information_gain == other.posterior.information_gain
    assert ask(one).score == ask(other).score
    assert one.recommend().action_index == other.recommend().action_index
    assert one.recommend().value == other.recommend().value


def test_an_interrupt_in_the_middle_of_an_update_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean on the grid is new by then, and the number of observations is not."""
    opt = make(SETTINGS[2])
    run(opt, 5)
    s = ask(opt)
    as_before = copy.deepcopy(opt)
    rank_one = drbo.models.gp._rank_one

    def interrupted(*arguments: Any) -> None:
        rank_one(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(drbo.models.gp, "_rank_one", interrupted)
        with pytest.raises(KeyboardInterrupt):
            opt.tell(s, 1.0)
    same_state(opt, as_before)


class Interrupt:
    """Raise a KeyboardInterrupt before the nth line of the package that is run, as a user's may come at any of them."""

    def __init__(self, before: int) -> None:
        self.left = before

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupt | None":
        if PACKAGE not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(call: Callable[[], None], before: int) -> bool:
    """Return whether the call was interrupted before that line; if not, it was over sooner."""
    usual = sys.gettrace()
    sys.settrace(Interrupt(before))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(usual)
    return False


class Unforgetting(dict[int, Suggestion]):
    """Pending suggestions of which none can be removed: the user interrupts just then."""

    def __delitem__(self, number: int) -> None:
        raise KeyboardInterrupt

    def pop(self, *_: Any) -> Suggestion:
        raise KeyboardInterrupt


def test_an_interrupt_between_a_result_and_its_suggestion_counts_once() -> None:
    opt = make(SETTINGS[2])
    run(opt, 5)
    s = ask(opt)
    whole = copy.deepcopy(opt)
    whole.tell(s, 1.0)
    pending, opt._pending = opt._pending, Unforgetting(opt._pending)
    with pytest.raises(KeyboardInterrupt):
        opt.tell(s, 1.0)
    opt._pending = pending
    with pytest.raises(ValueError, match="has been told or cancelled already"):
        opt.tell(s, 1.0)
    with pytest.raises(ValueError, match="has been told or cancelled already"):
        opt.cancel(s)
    same_state(opt, whole)


@pytest.mark.parametrize("outcome", [1.0, None], ids=["result", "failure"])
@pytest.mark.parametrize("setting", SETTINGS[1:3], ids=repr)
def test_an_interrupt_anywhere_in_tell_leaves_all_of_it_or_nothing(setting: Setting, outcome: float | None) -> None:
    """Whoever then tells again what is still pending has the state of a call that was not interrupted."""
    start = make(setting)
    run(start, 5)
    s = ask(start)
    start._best = dataclasses.replace(start.recommend(), action_point=s.action_point)  # a failure changes the best
    context = {} if setting.picks_context else {"context_index": 3}

    def tell_it(opt: Optimizer) -> None:
        opt.tell(s, outcome, failed=outcome is None, **context)

    whole = copy.deepcopy(start)
    tell_it(whole)
    retried = 0
    for before in itertools.count(1):
        opt = copy.deepcopy(start)
        if not interrupted(lambda opt=opt: tell_it(opt), before):  # type: ignore[misc]  # a loop variable, bound
            break
        if opt.pending:
            retried += 1
            tell_it(opt)
        with pytest.raises(ValueError, match="has been told or cancelled already"):
            tell_it(opt)
        same_state(opt, copy.deepcopy(whole))
    assert 10 < retried < before - 1  # both happened
