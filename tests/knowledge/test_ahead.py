"""One-step-ahead errors, against the formulas of a Gaussian process written out."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import drbo
from drbo.kernels import RBF, Product
from drbo.knowledge.ahead import DELTA, FIRST, SCALE, STEP, Ahead

GRID = np.linspace(0.0, 1.0, 7)[:, None]
MODEL = drbo.GP(Product(RBF(0.3), RBF(0.5)), 0.2)


def make(model: drbo.GP | None = MODEL) -> drbo.Optimizer:
    return drbo.Optimizer(GRID, GRID, setting=drbo.Simulator(np.full(7, 1 / 7), 0.2), surrogate=model)


def errors(opt: drbo.Optimizer) -> Ahead:
    return opt._known.ahead(opt._known.state)


def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    action = np.exp(-0.5 * (a[:, None, 0] - b[None, :, 0]) ** 2 / 0.3**2)
    return np.asarray(action * np.exp(-0.5 * (a[:, None, 1] - b[None, :, 1]) ** 2 / 0.5**2))


def test_errors_are_those_of_the_formulas() -> None:
    opt, rng = make(), np.random.default_rng(0)
    places, outcomes, noises = [], [], []
    for n in range(14):
        i, j = rng.integers(7, size=2)
        places.append([GRID[i, 0], GRID[j, 0]])
        outcomes.append(float(rng.normal()))
        noises.append(0.2 if n % 3 else 0.4)
        opt.tell(GRID[i], outcomes[-1], context=GRID[j], stderr=None if n % 3 else 0.4)
    z, y, noise = np.array(places), np.array(outcomes), np.array(noises)
    found = errors(opt)
    assert found.results == tuple(range(14))
    for t in range(14):
        past, here = z[:t], z[t : t + 1]
        solved = np.linalg.solve(k(past, past) + np.diag(noise[:t] ** 2), np.c_[y[:t], k(past, here)]) if t else None
        mean, explained = (k(here, past) @ solved)[0] if solved is not None else (0.0, 0.0)
        variance = 1.0 - explained
        assert found.errors[t] == pytest.approx((y[t] - mean) / np.sqrt(variance + noise[t] ** 2), rel=1e-6)


def test_a_cost_that_is_higher_than_predicted_has_a_negative_error() -> None:
    opt = drbo.Optimizer(GRID, GRID, setting=drbo.Simulator(np.full(7, 1 / 7), 0.2), surrogate=MODEL, maximize=False)
    opt.tell(GRID[0], 3.0, context=GRID[0])
    assert errors(opt).errors[0] < 0.0


def test_the_evidence_is_the_product_of_the_bets() -> None:
    z = np.random.default_rng(3).normal(size=40)
    found = Ahead(tuple(range(40)), tuple(z), (False,) * 40, (False,) * 40, False)
    assert found.evidence == pytest.approx(np.prod(1.0 + STEP * (z[FIRST - 1 :] ** 2 / SCALE**2 - 1.0)))


def test_a_right_model_is_rarely_refuted_at_any_time_and_a_wrong_one_soon() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=(4000, 200))
    paths = np.cumprod(1.0 + STEP * (z**2 / SCALE**2 - 1.0), axis=1)
    assert (paths.max(axis=1) >= 1.0 / DELTA).mean() <= DELTA
    wrong = np.cumprod(1.0 + STEP * ((3.0 * z) ** 2 / SCALE**2 - 1.0), axis=1)
    assert (wrong[:, 40] >= 1.0 / DELTA).mean() > 0.9


def test_corrections_end_the_test() -> None:
    opt, rng = make(), np.random.default_rng(5)
    for n in range(20):
        opt.tell(GRID[n % 7], 30.0 * rng.normal(), context=GRID[n % 5])
    assert errors(opt).refuted
    opt.amend(3, 0.5)
    corrected = errors(opt)
    assert corrected.corrected
    assert not corrected.refuted
    opt.retract(4)
    assert 4 not in errors(opt).results


def test_failures_vectors_and_hidden_contexts() -> None:
    opt = make()
    opt.tell(GRID[0], failed=True, context=GRID[1])
    opt.tell(GRID[1], [0.1, 0.2, 0.3], contexts=GRID[:3])
    opt.tell(GRID[2], 0.3, distribution=np.full(7, 1 / 7))
    opt.tell(GRID[2], 0.3, context=GRID[0])
    assert errors(opt).results == (1, 3)


def test_errors_use_the_fit_recorded_before_the_outcome() -> None:
    opt, rng = make(None), np.random.default_rng(6)
    for _ in range(12):
        s = opt.ask()
        opt.tell(s, float(np.sin(5.0 * s.action[0]) + s.context[0] + 0.1 * rng.normal()))
    known = errors(opt)
    s = opt.ask()
    opt.tell(s, 2.0)
    assert errors(opt).errors[:-1] == known.errors


def test_verdicts_are_read_in_several_threads() -> None:
    """A verdict is made when it is read, without the optimizer's lock."""
    opt, rng = make(), np.random.default_rng(7)
    answers = []
    for n in range(60):
        opt.tell(GRID[n % 7], float(rng.normal()), context=GRID[n % 5])
        answers.append(opt.recommend())
    expected = copy.deepcopy(opt)._known
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda r: r.trust, answers))
    assert errors(opt) == expected.ahead(expected.state)
    assert [one.verdict for one in found] == [r.trust.verdict for r in answers]
