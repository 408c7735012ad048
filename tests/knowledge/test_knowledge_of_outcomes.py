"""Several outcomes by name: each has its own posteriors, bounds and claim."""

from dataclasses import replace

import numpy as np

import drbo
from drbo.knowledge.configuration import ModelledOutcome
from drbo.knowledge.history import OBJECTIVE, Fact, Readings, Told
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.state import Terms
from drbo.models.bounds import as_beta

GRID = np.linspace(0.0, 1.0, 5)[:, None]
MODEL = drbo.GP(drbo.kernels.Product(drbo.kernels.RBF(0.3), drbo.kernels.RBF(0.3)), 0.1)


def optimizer() -> drbo.Optimizer:
    return drbo.Optimizer(GRID, GRID, setting=drbo.Simulator(np.full(5, 0.2), 0.2), surrogate=MODEL)


def test_each_outcome_has_the_posterior_of_an_optimizer_of_its_own() -> None:
    opt = optimizer()
    own = opt.configuration
    peak = ModelledOutcome(own.surrogate, 1.0, as_beta(1.0), as_beta(2.5), own.objective.first_fit)
    facts: list[Fact] = []
    known = Knowledge(replace(own, outcomes={OBJECTIVE: own.objective, "peak": peak}), facts)
    costs, peaks = optimizer(), optimizer()
    for i, j, cost, high in ((0, 1, 1.0, -2.0), (3, 2, 2.0, None), (4, 4, None, 0.5), (2, 0, 0.3, 0.1)):
        values = {OBJECTIVE: cost, "peak": high}
        outcomes = {name: Readings((value,)) for name, value in values.items() if value is not None}
        x, c = own.search.space.at("action", i), own.nature.space.at("context", j)
        facts.append(Told(None, None, x, (c,), outcomes, True))
        for alone, value in ((costs, cost), (peaks, high)):
            if value is not None:
                alone.tell(GRID[i], value, context=GRID[j])
    for name, alone in ((OBJECTIVE, costs), ("peak", peaks)):
        mean, variance = known.belief(known.state, name=name).certain.moments(GRID)
        expected = alone.posterior.moments(GRID)
        np.testing.assert_array_equal(mean, expected[0])
        np.testing.assert_array_equal(variance, expected[1])
    asked = Snapshot.of(known, Terms())
    beliefs = known.beliefs(known.state, asked.ball, known.fits(known.state, fresh=False)[0])
    assert [(name, one.width, one.bound_width) for name, one in beliefs.items()] == [
        (OBJECTIVE, 2.0, 2.0),
        ("peak", 1.0, 2.5),
    ]
    lower = asked.lower(asked.ball, "peak").at(GRID)
    mean, variance = peaks.posterior.moments(GRID)
    np.testing.assert_allclose(lower, mean - 2.5 * np.sqrt(variance), rtol=1e-12, atol=1e-12)
    assert not asked.configuration.outcomes["peak"].claim.proven
