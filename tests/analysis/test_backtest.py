"""What radii would have earned in the past: against the definition, step by step."""

import copy
import math
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import MMD, RBF, backtest
from drbo.analysis import Backtest
from drbo.radius import empirical
from drbo.rounds.grid_search import robust_scores
from exact import exact

N = 8
SET = MMD(np.linspace(0, 1, N), RBF(0.2))


def test_backtest_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    values, seen = rng.normal(size=(6, N)), rng.integers(0, N, 30)
    radii = [0.0, 0.1, 0.5, math.inf]
    result = backtest(values, SET, seen, radii, window=10)
    assert result.rewards.shape == (4, 20)
    for k, radius in enumerate(radii):
        for step in range(20):
            t = step + 10
            scores = robust_scores(values, SET, empirical(seen[t - 10 : t], N), radius)
            assert scores[result.actions[k, step]] == pytest.approx(scores.max(), abs=1e-9)
            assert result.rewards[k, step] == values[result.actions[k, step], seen[t]]
    np.testing.assert_allclose(result.revenue, result.rewards.sum(axis=1))
    assert result.best_radius == radii[int(np.argmax(result.revenue))]


def test_backtest_with_rewards_of_its_own() -> None:
    rng = np.random.default_rng(0)
    values, seen, rewards = rng.normal(size=(6, N)), rng.integers(0, N, 30), rng.normal(size=(30, 6))
    result = backtest(values, SET, seen, [0.1], 10, rewards)
    assert result.rewards[0, 3] == rewards[13, result.actions[0, 3]]


@pytest.mark.parametrize("n_contexts", [5, 2000])
def test_backtest_of_a_set_of_another_size(n_contexts: int) -> None:
    """F1: compiled code checks no bounds: such a call ended the interpreter, or answered with what lay in memory."""
    ambiguity = MMD(np.linspace(0, 1, n_contexts))
    with pytest.raises(ValueError, match=f"ambiguity is for {n_contexts} contexts, but there are 4"):
        backtest(np.eye(4), ambiguity, [0, 1, 2], [0.1], 1)


def test_bad_input() -> None:
    values, seen = np.zeros((2, N)), [0, 1, 2]
    for arguments, message in (
        ((values, SET, seen, [-0.1], 1), "radii must be zero or more"),
        ((values, SET, seen, [0.1], 3), "window must be from 1 to 2"),
        ((values, SET, [0.5, 1.0], [0.1], 1), "seen must be a flat sequence of context indices"),
        ((values, SET, [0, N], [0.1], 1), "seen must hold indices from 0 to 7"),
        ((values, SET, seen, [0.1], 1, np.zeros((3, 3))), r"rewards must have shape \(3, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            backtest(*arguments)


def profit(order: float, day: dict[str, float]) -> float:
    """A newsvendor: buys at 1, sells at 2."""
    return 2.0 * min(order, day["demand"]) - order


DEMAND = np.random.default_rng(3).normal(100.0, 15.0, 30)
ORDERS = [60.0, 80.0, 100.0, 120.0]


def test_a_function_on_samples_is_the_matrix_of_its_values() -> None:
    samples = drbo.Samples(DEMAND, names=["demand"], support=0)
    ambiguity = drbo.MMD(kernel=drbo.RBF(10.0))
    result = drbo.backtest(profit, ambiguity, samples, [0.0, 0.5], 10, actions=ORDERS)
    values = np.array([[profit(x, {"demand": d}) for d in DEMAND] for x in ORDERS])
    expected = backtest(values, drbo.MMD(DEMAND, drbo.RBF(10.0)), np.arange(30), [0.0, 0.5], 10)
    np.testing.assert_array_equal(result.actions, expected.actions)
    np.testing.assert_allclose(result.rewards, expected.rewards)
    assert result.candidates == tuple(ORDERS)
    with pytest.raises(TypeError, match="actions is missing"):
        drbo.backtest(profit, ambiguity, samples, [0.0], 10)
    with pytest.raises(TypeError, match="seen must be Samples"):
        drbo.backtest(profit, ambiguity, [0, 1], [0.0], 1, actions=ORDERS)
    with pytest.raises(TypeError, match="values must be a function"):
        backtest(values, ambiguity, samples, [0.0], 10)


def test_table_picture_and_costs() -> None:
    result = backtest(-np.eye(3), drbo.TotalVariation(), [0, 1, 2, 2, 1, 0], [0.0, 0.4], 2)
    rows = result.rows()
    assert [row["revenue"] for row in rows] == result.revenue.tolist()
    assert result.to_frame()["worst"].tolist() == result.rewards.min(axis=1).tolist()
    assert len(result.plot().axes) == 2
    costs = Backtest(np.array([0.2, 0.1]), np.zeros((2, 1), dtype=np.intp), np.array([[3.0], [3.0]]), maximize=False)
    assert costs.best_radius == 0.1
    assert costs.worst.tolist() == [3.0, 3.0]


def fitted(actions: Any, contexts: Any, setting: drbo.Setting, maximize: bool = True) -> drbo.Optimizer:
    model = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), noise=0.02, offset=0.0, scale=100.0)
    opt = drbo.Optimizer(
        actions, contexts, ambiguity=drbo.MMD(kernel=drbo.RBF(0.2 * 70)), setting=setting, surrogate=model,
        maximize=maximize,
    )  # fmt: skip
    for i in range(20):
        x, d = 60.0 + 60.0 * ((i * 0.37) % 1.0), 70.0 + 60.0 * ((i * 0.61) % 1.0)
        reward = profit(x, {"demand": d}) * (1.0 if maximize else -1.0)
        opt.tell({"order": x}, reward, context={"demand": d}, drawn=False)
    return opt


@pytest.mark.parametrize("maximize", [True, False])
def test_a_fitted_optimizer_on_a_box(maximize: bool) -> None:
    """REVIEW U8: boxes and samples, with what was learned."""
    samples = drbo.Samples(DEMAND, names=["demand"], support=8)
    opt = fitted(drbo.Box(order=(60.0, 120.0)), samples, drbo.Simulator(radius=0.2, pick="uncertain"), maximize)
    twin = copy.deepcopy(opt)
    result = opt.under().backtest([0.0, 0.3], window=20, actions=[{"order": x} for x in ORDERS])
    assert opt.ask() == twin.ask()
    days = [{"demand": d} for d in DEMAND]
    for row in range(2):
        for column, day in enumerate(days[20:]):
            chosen = result.candidates[result.actions[row, column]]
            assert result.rewards[row, column] == pytest.approx(opt.predict(chosen, day).mean, rel=1e-6)
    given = opt.under().backtest([0.0, 0.3], window=20, past=days, actions=[{"order": x} for x in ORDERS])
    np.testing.assert_allclose(given.rewards, result.rewards, rtol=1e-6)
    spread = opt.under().backtest([0.0], window=28)
    assert len(spread.candidates) >= 128
    assert spread.maximize is maximize


def test_a_fitted_optimizer_on_a_grid() -> None:
    grid, contexts = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, 4)
    seen = [0, 1, 3, 2, 1, 0, 2, 3]
    setting = drbo.Simulator(radius=0.2, history=seen, pick="uncertain")
    model = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), noise=0.05)
    opt = drbo.Optimizer(grid, contexts, ambiguity=drbo.MMD(kernel=drbo.RBF(0.3)), surrogate=model, setting=setting)
    for i in range(12):
        opt.tell(grid[i % 6], float(np.sin(3 * grid[i % 6]) * contexts[i % 4]), context=contexts[i % 4])
    mean, variance = exact(opt.posterior).on_grid()
    own = opt.under().backtest([0.0, 0.4], window=3)
    expected = backtest(mean - 2.0 * np.sqrt(variance), opt.configuration.placed, seen, [0.0, 0.4], 3, mean[:, seen].T)
    np.testing.assert_array_equal(own.actions, expected.actions)
    np.testing.assert_allclose(own.rewards, expected.rewards)
    again = opt.under().backtest([0.0, 0.4], window=3, past=contexts[seen])
    np.testing.assert_array_equal(again.actions, own.actions)
    nothing = drbo.Optimizer(
        grid,
        contexts,
        ambiguity=drbo.MMD(),
        setting=drbo.Simulator(np.ones(4), 0.2, pick="uncertain"),
        surrogate=opt.configuration.surrogate,
    )
    with pytest.raises(ValueError, match="past is missing"):
        nothing.under().backtest([0.1], 2)
