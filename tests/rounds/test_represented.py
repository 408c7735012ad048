"""Samples that atoms stand for: the certificate holds for the samples' own distribution, too."""

import numpy as np
import pytest

import drbo
from drbo import GP, MMD, RBF, Matern, Optimizer, Product, Samples, Simulator
from drbo.ambiguity.placed import on_range
from drbo.contexts.sampled_contexts import SampledContexts
from drbo.models import LOWER, Bound
from drbo.models.curve import Curve
from drbo.models.regression import ExactPosterior
from drbo.rounds.ball import Prices
from drbo.rounds.range_ball import RepresentedBall, Sorted, make_ball
from drbo.spaces import Point
from tolerances import CLOSED_FORM

ACTION = Point(np.array([0.4]))


def posterior(contexts: np.ndarray, kernel: drbo.Kernel, n: int, seed: int) -> ExactPosterior:
    rng = np.random.default_rng(seed)
    known = ExactPosterior(GP(Product(RBF(0.4), kernel), 0.05), np.empty((0, 1)), contexts)
    for _ in range(n):
        known = known.with_outcome(rng.random(1), rng.random((contexts.shape[1],)), float(rng.normal()))
    return known


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(0.02), Matern(0.2, nu=1.5)])
@pytest.mark.parametrize("n", [0, 25])
def test_the_lowest_excess_is_that_of_every_sample(
    d: int, kernel: drbo.Kernel, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that are ruled out hold no sample that would be lower: against a look at every sample."""
    rng = np.random.default_rng(n)
    samples = Samples(np.concatenate([rng.normal(size=(900, d)), rng.random((100, d))]), atoms=20, support=8)
    nature = SampledContexts(samples, MMD(), 0)
    reference = nature.own()
    assert reference is not None
    assert len(reference.represented) == 1000
    ambiguity = MMD().on(nature.space.measured(reference.points), nature.space.scales)
    ball = make_ball(ambiguity, reference, 0.1, nature.space, 0, None)
    assert isinstance(ball, RepresentedBall)
    bound = Bound(posterior(reference.points, kernel, n, 1), 2.0, LOWER)
    values = bound.of_action(ACTION)
    worst = ball.worst_case(values)
    dual = on_range(ambiguity).dual(values, reference.weights, 0.1, worst)
    assert dual is not None
    prices, curve = Prices(dual, nature.space), bound.curve(ACTION.coordinates)
    every = float((curve(samples.points) - prices.at(samples.points)).min())
    in_cells = Sorted.of(curve, samples.points)
    lowest, harmful = in_cells.lowest_excess(prices)
    assert lowest == pytest.approx(min(every, 0.0), abs=CLOSED_FORM)
    assert (len(harmful) > 0) == (every < 0.0)
    monkeypatch.setattr(Curve, "__call__", None)  # the values are known, whatever the prices
    again = in_cells.lowest_excess(prices)
    assert (again[0], again[1].tolist()) == (lowest, harmful.tolist())


def test_a_certificate_holds_for_the_samples_themselves() -> None:
    """REVIEW S3: f is known and high at every atom, and not known between them; 0.1 promised the value at the atoms."""
    rng = np.random.default_rng(0)
    samples = Samples(rng.random(3000)[:, None], atoms=40, support=8)
    surrogate = GP(Product(RBF(1.0), RBF(0.004)), 0.01)
    opt = Optimizer(
        np.array([0.0, 1.0]),
        samples,
        ambiguity=MMD(kernel=RBF(0.2)),
        setting=Simulator(radius=0.05, pick="uncertain"),
        surrogate=surrogate,
    )
    atoms = opt.recommend().contexts
    for context in atoms:
        opt.tell(0.0, 1.0, context=context)
    r = opt.recommend()
    lower = np.array([opt.predict(r.action, row).lower for row in samples.data])
    on_atoms = np.array([opt.predict(r.action, context).lower for context in atoms])
    assert on_atoms.min() > 0.5  # what 0.1 looked at
    assert lower.mean() < 0.0
    assert r.value <= lower.mean()


def test_without_compression_nothing_changes() -> None:
    samples = Samples(np.linspace(0.0, 1.0, 30)[:, None], support=4)
    reference = SampledContexts(samples, MMD(), 0).own()
    assert reference is not None
    assert len(reference.represented) == 0
