"""What radii would have earned in the past: against the definition, step by step."""

import math

import numpy as np
import pytest

from drbo import MMD, RBF
from drbo.radius import backtest, empirical
from drbo.rounds.grid import robust_scores

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
    """Compiled code checks no bounds: such a call once ended the interpreter, or answered with what lay in memory."""
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
