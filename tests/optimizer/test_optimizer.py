"""Ask, tell, recommend: the three settings end to end, pending suggestions, and every bad input."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from bits import bits
from drbo import (
    GP,
    AmbiguitySet,
    DataDriven,
    Expectation,
    General,
    Neighbourhood,
    Optimizer,
    Setting,
    Simulator,
    TheoreticalBeta,
)
from drbo.rounds.ball import TIE
from drbo.rounds.grid_search import robust_scores
from exact import exact
from robos import SET, SETTINGS, SURROGATE, ask, make, posterior, run, tell
from tolerances import CLOSED_FORM


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_each_setting_end_to_end(setting: Setting) -> None:
    """On the RoBOS function the optimizer settles on the robust optimum of the set that it is robust to."""
    opt = make(setting)
    suggestions = run(opt, 150)
    last = suggestions[-1]
    scores = robust_scores(robos.F, SET, last.reference, last.radius)
    tail = [s.action_index for s in suggestions[-30:]]
    assert max(set(tail), key=tail.count) == np.argmax(scores)
    for r in (opt.recommend_iterate(), opt.recommend()):
        assert r.action == robos.X[r.action_index]
        assert SET.distance(r.weights, r.reference) <= r.radius + 1e-9
        assert r.value <= robust_scores(robos.F, SET, r.reference, r.radius)[r.action_index]
    if not isinstance(setting, DataDriven):
        assert opt.recommend_iterate().action == opt.recommend().action == -2.5


@pytest.mark.parametrize(("ambiguity", "expected"), [(Expectation(), 2.5), (Neighbourhood(robos.C), 2.5)], ids=repr)
def test_baselines_find_their_own_optimum(ambiguity: AmbiguitySet, expected: float) -> None:
    """Stochastic UCB and StableOpt (radius 0.43: only the contexts next to the mean) are lured by the high ridge."""
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"), ambiguity=ambiguity)
    run(opt, 100)
    assert opt.recommend_iterate().action == expected


def test_stableopt_with_an_infinite_radius_is_the_worst_case() -> None:
    opt = make(Simulator(robos.REFERENCE, np.inf, pick="uncertain"), ambiguity=Neighbourhood(robos.C))
    run(opt, 150)
    assert robos.X[np.argmax(robos.F.min(axis=1))] == -0.5
    assert opt.recommend_iterate().action == -0.5


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
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
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
    lcb = posterior(opt).mean[s.action_index] - 2.0 * np.sqrt(np.diag(covariance))
    w = SET.worst_case(lcb, robos.REFERENCE, robos.RADIUS).weights
    reduction = (covariance @ w) ** 2 / (np.diag(covariance) + 0.05**2)
    assert s.context_index == np.argmax(reduction)
    assert s.context_index != np.argmax(np.diag(covariance))  # the paper's rule would do otherwise


def test_recommendation_is_equation_10() -> None:
    """The action is the one of the largest worst-case lcb at its own time; its certificate is that of now."""
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    rng = np.random.default_rng(1)
    best, best_action = -np.inf, -1

    def certificate(action: int | None) -> float:
        lcb = (posterior(opt).mean - 2.0 * posterior(opt).std)[action]
        return float(SET.worst_case(lcb, robos.REFERENCE, robos.RADIUS).lower_bound)

    for _ in range(60):
        s = opt.ask()
        value = certificate(s.action_index)
        if value > best:
            best, best_action = value, s.action_index
        for _ in range(2):  # with the suggestion pending, and with its result
            assert opt.recommend_iterate().action_index == best_action
            assert opt.recommend_iterate().value == pytest.approx(certificate(best_action), abs=CLOSED_FORM)
            if opt.pending:
                tell(opt, s, rng)
    lcb = posterior(opt).mean - 2.0 * posterior(opt).std
    scores = robust_scores(lcb, SET, robos.REFERENCE, robos.RADIUS)
    assert opt.recommend().action_index == np.argmax(scores)
    assert opt.recommend().value == pytest.approx(scores.max(), abs=1e-8)


def test_general_recommendation_is_for_the_last_set_or_the_one_given() -> None:
    opt = make(General())
    run(opt, 30)
    assert opt.recommend().radius == robos.RADIUS
    assert opt.recommend(robos.TRUTH, 0.0).radius == 0.0
    lcb = posterior(opt).mean - 2.0 * posterior(opt).std
    assert opt.recommend(robos.TRUTH, 0.0).value == pytest.approx((lcb @ robos.TRUTH).max(), abs=CLOSED_FORM)


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
    if isinstance(setting, Simulator):
        assert all(
            (a.action_index, a.context_index) != (b.action_index, b.context_index) for a, b in itertools.pairwise(asked)
        )


def test_pending_ones_count_as_if_observed_at_their_mean() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    run(opt, 10)
    first = opt.ask()
    assert first.context is not None
    told = copy.deepcopy(opt)
    mean, _ = told.posterior.predict(first.action[None], first.context[None])
    told.tell(first, float(mean[0]))
    assert opt.ask().action_index == told.ask().action_index


def test_pending_ones_never_enter_a_certificate() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    for _ in range(30):
        opt.ask()
    lcb = -2.0 * np.ones(len(robos.C))  # the prior is all that is known
    assert opt.recommend_iterate().value == pytest.approx(float(lcb[0]), abs=CLOSED_FORM)
    assert exact(opt.posterior).n_observations == 0


def test_results_in_any_order_and_cancelled_ones() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    rng = np.random.default_rng(0)
    a, b, c = opt.ask(), opt.ask(), opt.ask()
    tell(opt, c, rng)
    opt.cancel(a)
    tell(opt, b, rng)
    assert opt.pending == ()
    assert exact(opt.posterior).n_observations == 2


def test_a_suggestion_may_come_back_from_another_process() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    opt.tell(pickle.loads(pickle.dumps(opt.ask())), 0.3)
    assert exact(opt.posterior).n_observations == 1


def test_a_context_by_value_or_by_index() -> None:
    one, two = make(General()), make(General())
    one.tell(ask(one), 0.5, context=robos.C[7])
    two.tell(ask(two), 0.5, context_index=7)
    np.testing.assert_array_equal(posterior(one).mean, posterior(two).mean)


def test_theoretical_beta_uses_the_settings_constant() -> None:
    beta = TheoreticalBeta(bound=1.0, noise=0.05, delta=0.1)
    for setting, events in zip(SETTINGS, (2, 3, 1, 1), strict=True):
        opt = make(setting, beta=beta)
        s = ask(opt)
        expected = beta.width(0.0, 0.05**2, events)
        assert s.score == pytest.approx(expected, abs=CLOSED_FORM)  # the prior: mean 0, variance 1 everywhere


def state(opt: Optimizer) -> Any:
    """Return all that a refused call must leave as it is, bit for bit."""
    on_grid = posterior(opt)
    return bits(
        [
            opt.history,
            opt.results,
            opt.pending,
            opt.n_told,
            on_grid.mean,
            on_grid.variance,
            on_grid.n_observations,
            opt.recommend_iterate(),
        ]
    )


W = robos.REFERENCE
BAD_ASKS = [
    ({}, "reference is missing"),
    ({"reference": W}, "radius is missing"),
    ({"reference": W[:-1], "radius": 0.1}, "reference must hold 50 weights"),
    ({"reference": W * 1.0011, "radius": 0.1}, "reference must sum to 1"),
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
    assert state(opt) == before


BAD_TELLS: list[tuple[dict[str, Any], str]] = [
    ({"outcome": float("nan"), "context_index": 0}, "outcome must be finite"),
    ({"outcome": float("inf"), "context_index": 0}, "outcome must be finite"),
    ({"outcome": "good", "context_index": 0}, "outcome must be a number"),
    ({"outcome": [1.0, 2.0], "context_index": 0}, "outcome must hold one number per context, 1, got 2"),
    ({"outcome": 1.0}, "tell needs the observed context"),
    ({"outcome": 1.0, "context": 0.1, "context_index": 0}, "tell needs the observed context"),
    ({"outcome": 1.0, "context": 0.1}, r"context must be one of the contexts, got \[0.1\]; the nearest one is"),
    ({"outcome": 1.0, "context": float("nan")}, "context must be finite"),
    ({"outcome": 1.0, "context": [0.1, 0.2]}, "context must be a point of 1 dimension"),
    ({"outcome": 1.0, "context_index": 50}, "context_index must be from 0 to 49"),
    ({"outcome": 1.0, "context_index": -1}, "context_index must be from 0 to 49"),
    ({"outcome": 1.0, "context_index": 1.5}, "context_index must be a whole number"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_TELLS, ids=[m for _, m in BAD_TELLS])
def test_bad_tells_change_nothing(arguments: dict[str, Any], message: str) -> None:
    opt = make(General())
    run(opt, 3)
    s = ask(opt)
    before = state(opt)
    with pytest.raises((TypeError, ValueError), match=message):
        opt.tell(s, **arguments)
    assert state(opt) == before
    opt.tell(s, 0.1, context_index=0)


def test_a_context_is_refused_where_the_setting_picked_it() -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    s = opt.ask()
    for given in ({"context": robos.C[0]}, {"context_index": 0}):
        with pytest.raises(TypeError, match="context must not be given"):
            opt.tell(s, 0.1, **given)
    assert bits(opt.pending) == bits((s,))


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
    with pytest.raises(TypeError, match="suggestion must be"):
        opt.tell("first", 0.1, context_index=0)
    assert exact(opt.posterior).n_observations == 1


def test_recommend_needs_an_ask() -> None:
    with pytest.raises(RuntimeError, match="call ask first"):
        make(General()).recommend_iterate()
    with pytest.raises(TypeError, match="reference is missing"):
        make(General()).recommend()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": []}, "actions must be points of shape"),
        ({"actions": [[np.nan]]}, "actions must be finite"),
        ({"contexts": np.zeros((2, 2, 2))}, "contexts must be points of shape"),
        ({"contexts": robos.C[:-1]}, "ambiguity is for 50 contexts, but there are 49"),
        ({"ambiguity": 0.1}, "ambiguity must be an AmbiguitySet such as"),
        ({"setting": "general"}, "setting must be General"),
        ({"surrogate": robos.GP_KERNEL}, "surrogate must be a GP, a LearnedGP or another"),
        ({"beta": -1.0}, "beta must be from zero to"),
        ({"beta": "2"}, "beta must be a number"),
        ({"seed": 1.7}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"ambiguity": drbo.KL}, "ambiguity must be an AmbiguitySet such as"),
    ],
)
def test_bad_construction(arguments: dict[str, Any], message: str) -> None:
    good = {"actions": robos.X, "contexts": robos.C, "ambiguity": SET, "setting": General(), "surrogate": SURROGATE}
    with pytest.raises((TypeError, ValueError), match=message):
        Optimizer(**{**good, **arguments})


def test_the_contract_snippet_of_the_design() -> None:
    actions, contexts = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 10)[:, None]
    w, eps = np.full(10, 0.1), 0.2
    for setting in (drbo.General(), drbo.DataDriven(delta=0.1), drbo.Simulator(w, eps, pick="uncertain")):
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
        if isinstance(setting, drbo.Simulator):
            assert s.context is not None
            opt.tell(s, 1.0)
        else:
            assert s.context is None
            assert s.context_index is None
            opt.tell(s, 1.0, context=contexts[3])
        r = opt.recommend_iterate()
        assert r.action.shape == (1,)
        assert np.isfinite(r.value)
        assert r.weights.shape == (10,)


def test_a_reference_that_the_caller_changes_later_is_not_ours() -> None:
    """One buffer for all references, updated in place: a common pattern of streaming code."""
    one, two, buffer = make(General()), make(General()), np.empty(50)
    rng = np.random.default_rng(0)
    for t in range(10):
        buffer[:] = rng.dirichlet(np.full(50, 0.3))
        a, b = one.ask(reference=buffer, radius=0.1), two.ask(reference=buffer.copy(), radius=0.1)
        assert a.same_as(b)
        one.tell(a, float(np.sin(a.action[0])), context_index=t)
        two.tell(b, float(np.sin(a.action[0])), context_index=t)


def test_what_is_handed_out_cannot_be_changed() -> None:
    given = robos.REFERENCE.copy()
    opt = make(Simulator(given, robos.RADIUS, pick="uncertain"))
    given[:] = 0.02
    s = opt.ask()
    np.testing.assert_array_equal(s.reference, robos.REFERENCE)
    for array in (s.reference, s.action, opt.recommend_iterate().weights):
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
        make(Simulator([0.5, 0.5], 0.1, pick="uncertain"))


def test_a_simulator_may_be_given_the_set_of_one_round() -> None:
    """S13: algorithm 2 with P_t and epsilon_t; without them those that it was made with."""
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    rng = np.random.default_rng(0)
    for t in range(12):
        own = t % 2 == 0
        s = opt.ask() if own else opt.ask(reference=robos.TRUTH, radius=0.05)
        assert s.context is not None
        np.testing.assert_array_equal(s.reference, robos.REFERENCE if own else robos.TRUTH)
        assert s.radius == (robos.RADIUS if own else 0.05)
        tell(opt, s, rng)
    opt.tell(opt.ask(), 0.1)
    lcb = posterior(opt).mean - 2.0 * posterior(opt).std
    for given, reference, radius in (
        ({}, robos.REFERENCE, robos.RADIUS),
        ({"reference": robos.TRUTH, "radius": 0.05}, robos.TRUTH, 0.05),
        ({"radius": 0.1}, robos.REFERENCE, 0.1),
        ({"reference": robos.TRUTH}, robos.TRUTH, robos.RADIUS),
        ({}, robos.REFERENCE, robos.RADIUS),
    ):
        r = opt.recommend(**given)
        scores = SET.worst_case(lcb, reference, radius).lower_bound
        assert r.radius == radius
        np.testing.assert_array_equal(r.reference, reference)
        assert r.value == pytest.approx(scores.max(), abs=1e-8)
        assert r.action_index == np.argmax(scores)


def test_counts_and_rounded_shares_are_weights() -> None:
    """U17: 0.1 refused all that did not sum to 1 within 1e-8."""
    counts = np.arange(50)
    shares = np.floor(1e5 * robos.TRUTH) / 1e5
    assert abs(shares.sum() - 1.0) > 1e-8
    for given in (counts, counts.astype(float), counts.tolist(), 1.0009 * counts / counts.sum()):
        s = make(General()).ask(reference=given, radius=0.1)
        np.testing.assert_allclose(s.reference, counts / counts.sum(), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(
        make(Simulator(shares, 0.1, pick="uncertain")).ask().reference, shares / shares.sum(), rtol=1e-12
    )
    for wrong in (1.5 * robos.REFERENCE, np.zeros(50), 0.99 * robos.REFERENCE):
        with pytest.raises(ValueError, match=r"reference must sum to 1 .* or be counts"):
            make(General()).ask(reference=wrong, radius=0.1)


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_several_at_once(setting: Setting) -> None:
    """U19: ask(3) is three asks in one call, and one record."""
    one, two = make(setting), make(setting)
    for opt in (one, two):
        run(opt, 4)
    given: dict[str, Any] = {"reference": robos.REFERENCE, "radius": robos.RADIUS}
    several = one.ask(3, **(given if isinstance(setting, General) else {}))
    assert isinstance(several, list)
    single = [ask(two) for _ in range(3)]
    assert bits(several) == bits(single)
    assert bits(one.pending) == bits(several)
    assert len(one.history) == len(two.history) - 2
    for s in reversed(several):
        tell(one, s, np.random.default_rng(s.number))
    assert one.n_told == 7
    assert len(one.ask(1, **(given if isinstance(setting, General) else {}))) == 1


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (0, "n must be at least 1"),
        (-2, "n must be at least 1"),
        (1.5, "n must be a whole number"),
        ("2", "n must be a whole number"),
        (True, "n must be a whole number"),
        (robos.REFERENCE, "reference must be given by its name"),
    ],
    ids=str,
)
def test_a_number_of_suggestions_that_is_none(n: Any, message: str) -> None:
    opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    with pytest.raises((TypeError, ValueError), match=message):
        opt.ask(n)
    assert opt.history == ()


def test_a_box_from_a_mapping() -> None:
    """U19: names that are no Python names, and plain pairs."""
    box = drbo.Box({"order": (40, 200), "max. delay": drbo.Integer(0, 3)})
    opt = Optimizer(box, robos.C, setting=Simulator(robos.REFERENCE, 0.1, pick="uncertain"), surrogate=SURROGATE)
    first, second = opt.ask(2)
    for s in (first, second):
        assert s.action.keys() == {"order", "max. delay"}
        assert 40 <= s.action["order"] <= 200
        opt.tell(s, s.action["order"] / 200)
    assert opt.results[1].action == second.action


def test_predictions_are_in_the_users_units() -> None:
    """U8: mean, deviation and bounds of f, also for costs and learned units."""
    for maximize, surrogate in ((True, SURROGATE), (False, SURROGATE), (False, drbo.LearnedGP())):
        opt = make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"), maximize=maximize, surrogate=surrogate)
        for i in range(8):
            opt.tell(robos.X[i], 100.0 * (surrogate is not SURROGATE) + robos.F[i, 20], context_index=20)
        p = opt.predict(robos.X[3], robos.C[20])
        assert p.mean == pytest.approx(100.0 * (surrogate is not SURROGATE) + robos.F[3, 20], abs=0.3)
        assert p.std > 0.0
        width = opt.recommend().beta  # the bounds are those of a recommendation
        assert width == (2.0 if surrogate is SURROGATE else 3.0)
        if surrogate is SURROGATE:
            assert p.lower == pytest.approx(p.mean - width * p.std)
            assert p.upper == pytest.approx(p.mean + width * p.std)
        else:  # the outermost of several fits (tests/models/test_several.py)
            assert 90.0 < p.lower <= p.mean - width * p.std
            assert p.mean + width * p.std <= p.upper < 110.0
    with pytest.raises(ValueError, match="action must be one of the actions"):
        opt.predict(0.123, robos.C[20])
