"""Bounds of several models: the lowest of all, in every place that prints a bound."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import drbo
from drbo.kernels import RBF, Product
from drbo.models import LOWER, UPPER, Bound, ExactPosterior
from drbo.models.data import Outcomes
from drbo.models.learned import ASSUMED_NOISE, PAIRS
from drbo.models.surrogate import SupportsCovariance
from drbo.spaces.space import Point

GRID = np.linspace(0.0, 1.0, 6)[:, None]
CONTEXTS = np.linspace(0.0, 1.0, 5)[:, None]
REFERENCE = np.full(5, 0.2)


def posterior(lengthscale: float, noise: float, actions: Any = GRID) -> ExactPosterior:
    gp = drbo.GP(Product(RBF(lengthscale), RBF(2.0 * lengthscale)), noise)
    made, rng = ExactPosterior.prior(gp, actions, CONTEXTS), np.random.default_rng(1)
    for _ in range(7):
        made = made.with_outcome(rng.random(1), rng.random(1), float(rng.normal()))
    return made


def bound(side: Any, width: float = 2.0) -> Bound:
    return Bound(posterior(0.3, 0.1), width, side, others=(posterior(0.1, 0.2), posterior(0.9, 0.05)))


@pytest.mark.parametrize("side", [LOWER, UPPER])
def test_the_bound_is_the_outermost_of_all(side: Any) -> None:
    every = bound(side)
    singles = [Bound(one, 2.0, side) for one in (every.posterior, *every.others)]
    outermost = np.min if side is LOWER else np.max
    x = np.random.default_rng(2).random((4, 1))
    np.testing.assert_array_equal(every.at(x), outermost([one.at(x) for one in singles], axis=0))
    np.testing.assert_array_equal(every.on_grid(), outermost([one.on_grid() for one in singles], axis=0))
    action = Point(x[0])
    np.testing.assert_array_equal(
        every.of_action(action), outermost([one.of_action(action) for one in singles], axis=0)
    )
    np.testing.assert_array_equal(
        every.difference(x, x[0]), outermost([one.difference(x, x[0]) for one in singles], axis=0)
    )
    c = np.random.default_rng(3).random((9, 1))
    curves = [one.curve(x[0]) for one in singles]
    np.testing.assert_array_equal(every.curve(x[0])(c), outermost([curve(c) for curve in curves], axis=0))
    np.testing.assert_allclose(every.at(x, np.array([4, 1])), every.at(x)[:, [4, 1]], rtol=0.0, atol=1e-12)
    weights = np.random.default_rng(4).dirichlet(np.ones(5))
    assert (every.ceilings(x, weights) >= every.at(x) @ weights - 1e-12).all()


@pytest.mark.parametrize("side", [LOWER, UPPER])
def test_the_gradient_is_that_of_the_outermost(side: Any) -> None:
    every, weights, h = bound(side), np.random.default_rng(5).dirichlet(np.ones(5)), 1e-6
    for x in np.random.default_rng(6).random((5, 1)):
        ahead, behind = (float(every.at((x + step)[None])[0] @ weights) for step in (h, -h))
        assert every.gradient(x, weights)[0] == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-6)


def test_a_cell_is_bounded_from_below() -> None:
    curve, rng = bound(LOWER).curve(np.array([0.4])), np.random.default_rng(7)
    for _ in range(20):
        centre, half, tilt = rng.random((1, 1)), 0.3 * rng.random((1, 1)), rng.normal(size=(1, 1))
        c = centre + half * np.linspace(-1.0, 1.0, 101)[:, None]
        assert curve.lowest(centre, half, tilt)[0] <= (curve(c) - (c - centre) @ tilt[0]).min() + 1e-12
    with pytest.raises(TypeError, match="no bound over cells"):
        bound(UPPER).curve(np.array([0.4])).lowest(np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))


def outcomes(noise: float = 0.0, repeats: int = 1) -> Outcomes:
    rng = np.random.default_rng(8)
    x, c = np.repeat(rng.random((12, 2)), repeats, axis=0), np.repeat(rng.random((12, 1)), repeats, axis=0)
    return Outcomes.of(x, c, np.sin(4.0 * x[:, 0]) + c[:, 0] + noise * rng.normal(size=len(x)), None, None)


def test_alternatives_lie_on_opposite_sides_of_the_fit_and_do_not_change() -> None:
    model, data = drbo.LearnedGP(), outcomes(0.1)
    fit = model.refit(data, model.first(drbo.models.Inputs(np.empty((0, 2)), 1), 1.0))
    found = model.alternatives(fit, data)
    assert found == model.alternatives(fit, data)
    assert len(found) == 2 * PAIRS
    assert all((one.offset, one.scale) == (fit.offset, fit.scale) for one in found)
    logs = [np.log(one.gp.kernel.action.lengthscale) for one in (fit, *found)]  # type: ignore[attr-defined]
    for k in range(PAIRS):
        np.testing.assert_allclose(logs[1 + k] + logs[1 + PAIRS + k], 2.0 * logs[0], rtol=1e-6)
        assert not np.allclose(logs[1 + k], logs[0])


def test_noise_that_no_outcome_shows_is_assumed() -> None:
    model, given = drbo.LearnedGP(), drbo.LearnedGP(noise=0.0)
    first = model.first(drbo.models.Inputs(np.empty((0, 2)), 1), 1.0)

    def noises(own: drbo.LearnedGP, data: Outcomes) -> list[float]:
        fit = own.refit(data, first)
        sure = replace(fit, gp=replace(fit.gp, noise=2e-4))
        return [one.gp.noise for one in own.alternatives(sure, data)]

    assert min(noises(model, outcomes())) == ASSUMED_NOISE
    assert len(noises(model, outcomes())) == 2 * PAIRS + 1  # the fit itself, with the assumed noise
    assert min(noises(given, outcomes())) < ASSUMED_NOISE
    assert min(noises(model, outcomes(repeats=2))) < ASSUMED_NOISE
    assert len(noises(model, outcomes(repeats=2))) == 2 * PAIRS


def run(surrogate: Any = None, maximize: bool = True) -> drbo.Optimizer:
    opt = drbo.Optimizer(
        GRID, CONTEXTS, ambiguity=drbo.TotalVariation(), setting=drbo.Simulator(REFERENCE, 0.2), surrogate=surrogate,
        maximize=maximize, baseline=[0.0],
    )  # fmt: skip
    rng = np.random.default_rng(9)
    for _ in range(12):
        s = opt.ask()
        opt.tell(s, 5.0 + 3.0 * float(np.sin(4.0 * s.action[0]) * s.context[0] + 0.1 * rng.normal()))
    return opt


@pytest.mark.parametrize("maximize", [True, False])
def test_every_printed_bound_is_that_of_all_models(maximize: bool) -> None:
    opt = run(maximize=maximize)
    known = opt._known
    base = known.belief(known.state, fresh=True)
    models = [base, *known.models(known.state, "", base.fit, CONTEXTS)]
    assert len(models) > 4
    low, high, width = [], [], 3.0 * known.ahead(known.state).size
    for model in models:
        mean, variance = model.on(CONTEXTS).certain.moments(GRID)
        low.append(mean - width * np.sqrt(variance))
        high.append(mean + width * np.sqrt(variance))
    lower, upper = np.min(low, axis=0), np.max(high, axis=0)
    placed = drbo.TotalVariation()
    worst = np.array([placed.worst_case(row, REFERENCE, 0.2).expectation for row in lower])
    outward = base.units.outward
    r = opt.recommend()
    assert r.beta == width
    assert r.action_index == int(np.argmax(worst))
    assert r.trust.guess == pytest.approx(outward(float(worst.max())), rel=1e-9)
    assert "several fitted models" in str(r)
    assert opt.bound(GRID[2]).trust.guess == pytest.approx(outward(float(worst[2])), rel=1e-9)
    p = opt.predict(GRID[2], CONTEXTS[1])
    ends = sorted((outward(float(lower[2, 1])), outward(float(upper[2, 1]))))
    assert (p.lower, p.upper) == pytest.approx(tuple(ends), rel=1e-9)
    question = opt.under()
    profile = question.profile([0.2])
    assert profile.bound[0] == pytest.approx(r.trust.guess, rel=1e-9)
    narrowed = question.narrowing(r.action)
    assert narrowed.bound[-1] == pytest.approx(r.trust.guess, rel=1e-9)
    differences = []
    for model in models:
        posterior = cast(SupportsCovariance, model.on(CONTEXTS).certain)
        mean, variance = posterior.difference(GRID[3][None], GRID[0])
        differences.append((mean - width * np.sqrt(variance))[0])
    least = placed.worst_case(np.min(differences, axis=0), REFERENCE, 0.2).expectation
    compared = question.compare(GRID[3])
    assert compared.worst == pytest.approx(base.units.length_outward(float(least)), rel=1e-9)
    level = outward(float(lower[r.action_index].mean()))
    probability = question.probability(r.action, above=level if maximize else None, below=None if maximize else level)
    assert probability.lower <= float((lower[r.action_index] > base.units.inward(level)).mean()) + 1e-9


def test_twins_and_a_fixed_model() -> None:
    opt, again = run(), run()
    assert opt.recommend().value == again.recommend().value
    fixed = run(drbo.GP(Product(RBF(0.3), RBF(0.3)), 0.1))
    assert fixed._known.models(fixed._known.state, "", fixed._known.fit(fixed._known.state), CONTEXTS) == ()
