"""A model of f that is written outside of drbo, in one file: Bayesian linear regression on features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import drbo
from drbo.models import Data, Inputs, Observation, Outcomes, Posterior, Surrogate, Units
from tolerances import FINITE_DIFFERENCES

Array = np.ndarray
pytestmark = pytest.mark.usefixtures("still")


@dataclass(frozen=True)
class Scales:
    """What is learned: offset and scale of the outcomes."""

    offset: float
    scale: float
    n_outcomes: int
    known: bool = True

    def units(self, sign: float) -> Units:
        return Units(sign, self.offset, self.scale, self.known)


@dataclass(frozen=True)
class Polynomial:
    """f(x, c) = weights' (1, x, c)^degree, weights ~ N(0, 1), for one coordinate of actions and one of contexts."""

    degree: int = 3
    noise: float = 0.1
    learns: ClassVar[bool] = True
    bound_width: ClassVar[float] = 2.0

    def adapted(self, space: Any) -> Any:
        return space.in_unit_cube()

    def first(self, inputs: Inputs, sign: float) -> Scales:
        del sign
        if (inputs.d_action, inputs.d_context) != (1, 1):
            raise ValueError("Polynomial is for one coordinate of actions and one of contexts")
        return Scales(0.0, 1.0, 0, known=False)

    def due(self, n_outcomes: int, last: Scales) -> bool:
        return n_outcomes > last.n_outcomes

    def refit(self, outcomes: Outcomes, last: Scales) -> Scales:
        del last
        return Scales(float(outcomes.y.mean()), float(outcomes.y.std()) or 1.0, len(outcomes.y))

    def posterior(self, fit: Scales, data: Data, contexts: Array, last: Any = None) -> "Weights":
        del fit, last
        d = (self.degree + 1) ** 2
        return Weights(self, contexts, np.eye(d), np.zeros(d)).with_more(data.observations)


@dataclass(frozen=True, eq=False)
class Weights:
    """The posterior of the weights: precision A (d, d), and A mean."""

    model: Polynomial
    contexts: Array
    precision: Array
    moment: Array

    @property
    def amplitude(self) -> float:
        return float(self.model.degree + 1)

    @property
    def noise(self) -> float:
        return self.model.noise

    def features(self, x: Array, c: Array, slope: bool = False) -> Array:
        powers = np.arange(self.model.degree + 1)
        left = powers * x ** np.maximum(powers - 1, 0) if slope else x**powers
        return (left[:, :, None] * (c**powers)[:, None, :]).reshape(len(x), -1)

    def with_more(self, observations: Sequence[Observation]) -> "Weights":
        made = self
        for one in observations:
            x = np.repeat(one.action[None], len(one.contexts), axis=0)
            phi = one.weights @ self.features(x, one.contexts)
            outcome = phi @ np.linalg.solve(made.precision, made.moment) if one.outcome is None else one.outcome
            precision = made.precision + np.outer(phi, phi) / self.noise**2
            made = replace(made, precision=precision, moment=made.moment + phi * outcome / self.noise**2)
        return made

    def predict(self, actions: Any, contexts: Any) -> tuple[Array, Array]:
        phi = self.features(np.atleast_2d(actions), np.atleast_2d(contexts))
        return phi @ np.linalg.solve(self.precision, self.moment), (phi * np.linalg.solve(self.precision, phi.T).T).sum(
            axis=1
        )

    def moments(self, actions: Array) -> tuple[Array, Array]:
        m, n = len(actions), len(self.contexts)
        mean, variance = self.predict(np.repeat(actions, n, axis=0), np.tile(self.contexts, (m, 1)))
        return mean.reshape(m, n), variance.reshape(m, n)

    def averages(self, actions: Array, weights: Array) -> tuple[Array, Array]:
        mean, variance = self.moments(actions)
        return mean @ weights, variance @ weights

    def gradient(self, action: Array, weights: Array, slope: float) -> Array:
        x = np.repeat(action[None], len(self.contexts), axis=0)
        phi, steep = self.features(x, self.contexts), self.features(x, self.contexts, slope=True)
        std = np.sqrt(self.predict(x, self.contexts)[1])
        mean = steep @ np.linalg.solve(self.precision, self.moment)
        cross = (steep * np.linalg.solve(self.precision, phi.T).T).sum(axis=1)
        return np.array([weights @ (mean + slope * cross / std)])


X, C = np.linspace(0, 1, 11), np.linspace(0, 1, 5)
BOX, SAMPLES = drbo.Box(x=(0.0, 1.0)), drbo.Samples({"c": np.linspace(0.1, 0.9, 8)})
MINE = [Polynomial, Scales]


def f(x: float, c: float) -> float:
    return 10.0 + 4.0 * x * (1.0 - x) * (1.0 + c)


def grid(**more: Any) -> drbo.Optimizer:
    setting = more.pop("setting", drbo.Simulator(np.full(5, 0.2), 0.2))
    return drbo.Optimizer(X, C, setting=setting, **{"surrogate": Polynomial(), **more})


def box(**more: Any) -> drbo.Optimizer:
    return drbo.Optimizer(BOX, SAMPLES, setting=drbo.Simulator(radius=0.1), **{"surrogate": Polynomial(), **more})


def number(value: Any) -> float:
    return float(next(iter(value.values())) if isinstance(value, dict) else np.ravel(value)[0])


def run(opt: drbo.Optimizer, rounds: int) -> list[Any]:
    found = []
    for _ in range(rounds):
        s = opt.ask()
        found.append((number(s.action), number(s.context), s.score))
        opt.tell(s, f(number(s.action), number(s.context)))
    return found


def test_it_meets_the_contract() -> None:
    assert isinstance(Polynomial(), Surrogate)
    made = Polynomial().posterior(Scales(0.0, 1.0, 0), Data(Inputs(np.empty((0, 1)), 1)), C[:, None])
    assert isinstance(made, Posterior)
    made = made.with_more([Observation.of(np.array([0.3]), np.array([0.5]), 1.0)])
    w = np.array([0.1, 0.2, 0.3, 0.2, 0.2])

    def value(x: float) -> float:
        mean, variance = made.moments(np.array([[x]]))
        return float(w @ (mean[0] + 2.0 * np.sqrt(variance[0])))

    slope = (value(0.4 + 1e-5) - value(0.4 - 1e-5)) / 2e-5
    assert made.gradient(np.array([0.4]), w, 2.0)[0] == pytest.approx(slope, rel=FINITE_DIFFERENCES)


@pytest.mark.parametrize("make", [grid, box])
def test_it_asks_tells_recommends_and_predicts(make: Any) -> None:
    opt = make()
    run(opt, 12)
    best = opt.recommend()
    assert number(best.action) == pytest.approx(0.5, abs=0.11)
    action, context = (X[5], C[2]) if make is grid else ({"x": 0.5}, {"c": 0.5})
    predicted = opt.predict(action, context)
    assert predicted.mean == pytest.approx(f(0.5, 0.5), abs=0.2)
    assert predicted.lower < predicted.mean < predicted.upper
    assert best.value < f(0.5, 1.0)
    assert opt.posterior.predict([[0.5]], [[0.5]])[1][0] > 0.0


@pytest.mark.parametrize("make", [grid, box])
def test_pending_and_failed_evaluations_count(make: Any) -> None:
    opt = make()
    run(opt, 4)
    opt.tell(opt.ask(), failed=True)
    first, second = opt.ask(), opt.ask()
    assert (number(first.action), number(first.context)) != (number(second.action), number(second.context))
    opt.tell(second, 1.0)
    assert opt.n_told == 6


@pytest.mark.parametrize("make", [grid, box])
def test_a_saved_one_goes_on_with_the_same_bits(make: Any, tmp_path: Path) -> None:
    opt = make()
    run(opt, 6)
    opt.save(tmp_path / "own.jsonl")
    loaded = drbo.Optimizer.load(tmp_path / "own.jsonl", classes=MINE)
    assert loaded.configuration.surrogate == Polynomial()
    assert run(loaded, 4) == run(opt, 4)
    assert loaded.recommend().value == opt.recommend().value
    with pytest.raises(Exception, match=r"classes=\[Polynomial\]"):
        drbo.Optimizer.load(tmp_path / "own.jsonl")


def test_the_report_leaves_out_what_it_cannot_know(tmp_path: Path) -> None:
    opt = grid(baseline=X[1])
    run(opt, 6)
    opt.report(tmp_path / "own.html")
    assert "Polynomial" in (tmp_path / "own.html").read_text()


REFUSED: dict[str, tuple[Any, str]] = {
    "draws": (lambda: grid(setting=drbo.General(), policy=drbo.Thompson()), "Thompson.*SupportsDraws"),
    "gains": (lambda: grid(setting=drbo.General(), policy=drbo.ValueOfInformation()), "ValueOfInf.*SupportsDraws"),
    "averages": (lambda: grid(setting=drbo.General(), policy=drbo.MeanEmbedding()), "MeanEmb.*SupportsAverages"),
    "range": (
        lambda: drbo.Optimizer(BOX, drbo.Box(c=(0.0, 1.0)), setting=drbo.Simulator(radius=0.1), surrogate=Polynomial()),
        "range.*SupportsCurve",
    ),
    "perturbation": (
        lambda: drbo.Optimizer(
            BOX, drbo.Perturbation(x=drbo.Normal(0.0, 0.1)), setting=drbo.Simulator(radius=0.1), surrogate=Polynomial()
        ),
        "Perturbation.*SupportsPerturbations",
    ),
    "theory": (lambda: grid(beta=drbo.TheoreticalBeta(1.0, 0.1)), "learns"),
    "budget": (lambda: grid(baseline=X[1], explore_budget=1.0), "explore_budget.*SupportsCovariance"),
    "not a model": (lambda: grid(surrogate=3.0), "got 3.0, which has no learns, .*posterior"),
    "a class": (lambda: grid(surrogate=Polynomial), "surrogate must be a GP"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_it_cannot_do_is_refused_at_once(kind: str) -> None:
    make, text = REFUSED[kind]
    with pytest.raises(TypeError, match=text) as refused:
        make()
    assert kind in ("theory", "not a model", "a class") or "Polynomial(degree=3, noise=0.1) lacks" in str(refused.value)


def test_queries_that_need_more_are_refused() -> None:
    opt = grid()
    run(opt, 4)
    with pytest.raises(TypeError, match=r"leave_one_out.*SupportsLeaveOneOut.*Polynomial"):
        opt.leave_one_out()
    with pytest.raises(TypeError, match=r"compare.*SupportsCovariance.*Polynomial"):
        opt.under().compare(X[5], X[4])


def test_informative_contexts_are_those_of_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule for any posterior picks what the rule by the covariances of a GP picks."""

    def contexts() -> list[float]:
        kernel = drbo.Product(drbo.RBF(0.4), drbo.RBF(0.3))
        opt = grid(surrogate=drbo.GP(kernel, 0.1), setting=drbo.Simulator(np.full(5, 0.2), 0.2, pick="informative"))
        return [context for _, context, _ in run(opt, 8)]

    def on_atoms(self: drbo.Informative, ball: Any, beliefs: Any, action: Any) -> Any:
        return self._on_atoms(ball, beliefs.expected(ball), beliefs.width, action)

    by_curve = contexts()
    monkeypatch.setattr(drbo.Informative, "pick", on_atoms)
    assert contexts() == by_curve
    assert len(set(by_curve)) > 2
