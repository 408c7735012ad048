"""Runs of days: their resamples, the autocorrelation, and the length that suits it."""

import numpy as np
import pytest

from drbo import KL, MMD, RBF, TotalVariation, Wasserstein
from drbo.rounds.past import autocorrelation, block_length, in_blocks

LEVELS = 40


def series(days: int, phi: float, seed: int) -> np.ndarray:
    """Return an autoregressive series as indices of levels."""
    rng = np.random.default_rng(seed)
    x = np.zeros(days)
    for i in range(1, days):
        x[i] = phi * x[i - 1] + np.sqrt(1 - phi**2) * rng.normal()
    return np.clip(np.round((x + 4.0) * (LEVELS - 1) / 8.0), 0, LEVELS - 1).astype(np.intp)


def test_blocks_are_runs_of_days() -> None:
    for count, block in ((10, 3), (7, 7), (5, 1)):
        at = in_blocks(count, block, np.random.default_rng(0), 3)
        assert at.shape == (3, count)
        assert ((at >= 0) & (at < count)).all()
        steps = np.diff(at, axis=1) % count
        assert all((steps[:, i] == 1).all() for i in range(count - 1) if (i + 1) % block)


def test_for_numbers_it_is_the_autocorrelation() -> None:
    seen = series(150, 0.6, 1)
    rho = autocorrelation(seen, Wasserstein(np.arange(LEVELS)), LEVELS, 3)
    x = seen - seen.mean()
    expected = [float(x[:-h] @ x[h:] / (x @ x)) for h in (1, 2, 3)]
    np.testing.assert_allclose(rho, expected, atol=0.12)  # pairs that stand for independent ones are random


@pytest.mark.parametrize("ambiguity", [MMD(np.arange(LEVELS), RBF(8.0)), Wasserstein(np.arange(LEVELS))], ids=repr)
def test_the_length_grows_with_the_autocorrelation(ambiguity: MMD | Wasserstein) -> None:
    lengths = {
        phi: [block_length(series(200, phi, seed), ambiguity, LEVELS) for seed in range(5)] for phi in (0, 0.5, 0.9)
    }
    assert np.median(lengths[0]) == 1
    assert np.median(lengths[0]) < np.median(lengths[0.5]) < np.median(lengths[0.9]) <= 42


@pytest.mark.parametrize("ambiguity", [TotalVariation(), KL()], ids=repr)
def test_labels_that_stay_are_autocorrelated(ambiguity: TotalVariation | KL) -> None:
    labels = np.random.default_rng(0).integers(0, 4, 25)
    assert block_length(np.repeat(labels, 8), ambiguity, 4) >= 4
    assert block_length(np.tile(np.arange(4), 30), ambiguity, 4) == 1
    assert block_length(np.zeros(50, dtype=np.intp), ambiguity, 4) == 1
    assert block_length(np.array([0, 1]), ambiguity, 4) == 1
