"""Perturbations of the action as contexts: an optimizer of f(x + xi), against a dense model, in every combination."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import (
    GP,
    RBF,
    Box,
    ConstantKernel,
    DataDriven,
    General,
    Integer,
    LearnedGP,
    Log,
    Matern,
    Normal,
    Optimizer,
    Perturbation,
    Product,
    Samples,
    Setting,
    Simulator,
    TheoreticalBeta,
    Uniform,
)
from drbo.models.data import Outcomes
from exact import fitted
from tolerances import ROUNDING, SOLVER
from twins import TWINS

pytestmark = pytest.mark.usefixtures("still")

ACTIONS = Box(setpoint=(18.0, 24.0), rate=Log(0.1, 10.0), stages=Integer(1, 3))
KERNEL = Matern((0.5, 0.7, 0.9), amplitude=2.0)
FIXED = GP(Product(KERNEL, ConstantKernel()), noise=0.1, noise_correlation=0.3)
PAST = {"setpoint": [-0.6, 0.3, 0.1, -0.2, 0.5], "rate": [0.1, -0.1, 0.2, 0.0, -0.2]}
POINTS = np.linspace(0.0, 3.0, 13)


def box(contexts: Any = None, setting: Setting | None = None, **more: Any) -> Optimizer:
    nature = Perturbation(Samples(PAST, support=6)) if contexts is None else contexts
    chosen = Simulator(radius=0.2, pick="uncertain") if setting is None else setting
    return Optimizer(ACTIONS, nature, setting=chosen, **{"surrogate": FIXED, **more})


def grid(contexts: Any = None, setting: Setting | None = None, **more: Any) -> Optimizer:
    nature = Perturbation([-0.5, 0.0, 0.2, 0.5]) if contexts is None else contexts
    chosen = Simulator(radius=0.2, pick="uncertain") if setting is None else setting
    surrogate = GP(Product(RBF(0.6), ConstantKernel()), noise=0.05)
    return Optimizer(POINTS, nature, setting=chosen, **{"surrogate": surrogate, **more})


def place(action: Any, context: Any) -> Any:
    """Return the unit-cube coordinates of the perturbed action, written out by hand; a number for points."""
    if not isinstance(action, dict):
        return float(np.ravel(action)[0] + np.ravel(context)[0])
    rate = math.log(action["rate"]) + context.get("rate", 0.0)
    return [
        (action["setpoint"] + context["setpoint"] - 18.0) / 6.0,
        (rate - math.log(0.1)) / math.log(100.0),
        (action["stages"] - 1) / 2,
    ]


def f(action: Any, context: Any) -> float:
    z = np.ravel(place(action, context))
    return float(np.sin(3.0 * z[0]) + (z[1:] ** 2).sum())


def step(opt: Optimizer, i: int) -> None:
    """Ask and tell; nature draws the perturbation where the optimizer does not."""
    terms: dict[str, Any] = {}
    if isinstance(opt.configuration.setting, General):
        terms = {"radius": 0.1}
    s = opt.ask(**terms)
    if s.context is not None:
        opt.tell(s, f(s.action, s.context))
        return
    rng = np.random.default_rng(i)
    names = opt.configuration.contexts.names
    c = rng.uniform(-0.3, 0.3, 1) if names is None else dict.fromkeys(names, float(rng.uniform(-0.3, 0.3)))
    opt.tell(s, f(s.action, c), context=c)


MAKERS: dict[str, Callable[[], Optimizer]] = {
    "box": box,
    "box, learned": lambda: box(surrogate=LearnedGP()),
    "box, minimised": lambda: box(maximize=False),
    "distribution": lambda: box(Perturbation(setpoint=Normal(0.0, 0.3))),
    "distributions": lambda: box(Perturbation(setpoint=Normal(0.0, 0.3), rate=Uniform(-0.1, 0.1)), General()),
    "informative": lambda: box(setting=Simulator(radius=0.1, pick="informative")),
    "data": lambda: box(setting=DataDriven(radius=0.1)),
    "tolerance": lambda: box(Perturbation(Box(setpoint=(-0.5, 0.5)))),
    "tolerance, data": lambda: box(Perturbation(Box(setpoint=(-0.5, 0.5))), DataDriven(radius=0.1)),
    "grid": grid,
    "grid, learned": lambda: grid(surrogate=LearnedGP()),
    "grid, data": lambda: grid(setting=DataDriven(), maximize=False),
    "grid, general": lambda: grid(setting=General(), ambiguity=drbo.Wasserstein()),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximize", [True, False])
def test_predictions_are_those_of_a_model_of_the_perturbed_action(maximize: bool) -> None:
    opt = box(maximize=maximize)
    rng = np.random.default_rng(0)
    told = []
    for i in range(12):
        x = {
            "setpoint": rng.uniform(18, 24) if i > 3 else 24.0,
            "rate": rng.uniform(0.1, 10),
            "stages": int(rng.integers(1, 4)),
        }
        c = {"setpoint": rng.uniform(-0.9, 0.9), "rate": rng.uniform(-0.3, 0.3)}
        told.append((x, c))
        opt.tell(x, f(x, c), context=c)
    z, y = np.array([place(x, c) for x, c in told]), np.array([f(x, c) for x, c in told])
    assert (z > 1.0).any()  # a perturbed action may leave the box
    K = KERNEL(z, z) + 0.01 * np.eye(12)
    new_x, new_c = {"setpoint": 23.9, "rate": 3.0, "stages": 2}, {"setpoint": 0.8, "rate": -0.1}
    k = KERNEL(z, np.array([place(new_x, new_c)]))[:, 0]
    p = opt.predict(new_x, new_c)
    assert p.mean == pytest.approx(k @ np.linalg.solve(K, y), abs=SOLVER)
    assert p.std == pytest.approx(math.sqrt(4.0 - k @ np.linalg.solve(K, k)), abs=SOLVER)
    same = opt.predict({**new_x, "setpoint": 23.4}, {"setpoint": 1.3, "rate": -0.1})
    assert same.mean == pytest.approx(p.mean, abs=SOLVER)
    check = opt.leave_one_out()
    rest = np.arange(12) != 4
    k = KERNEL(z[rest], z[4:5])[:, 0]
    assert check.mean[4] == pytest.approx(k @ np.linalg.solve(K[np.ix_(rest, rest)], y[rest]), abs=SOLVER)


def test_hyper_parameters_are_learned_at_the_places() -> None:
    opt = box(surrogate=LearnedGP())
    for i in range(8):
        step(opt, i)
    results = opt.results
    z, y = np.array([place(r.action, r.context) for r in results]), [r.outcome for r in results]
    fit = fitted(opt._known.fit(opt._known.state, fresh=True))
    assert fit.gp.kernel.context == ConstantKernel()
    assert len(fit.gp.kernel.action.lengthscale) == 3  # type: ignore[attr-defined]
    told = Outcomes(z, np.empty((8, 0)), np.array(y), np.full(8, np.nan), np.arange(8))
    again = LearnedGP(context=ConstantKernel()).refit(told, fit)
    assert again.log_posterior == pytest.approx(fit.log_posterior, abs=1e-3)
    standard = (np.array(y) - fit.offset) / fit.scale
    A = fit.gp.kernel.action(z, z) + fit.gp.ridge * np.eye(8)
    p = opt.predict(results[0].action, {"setpoint": 0.3, "rate": 0.1})
    k = fit.gp.kernel.action(z, np.array([place(results[0].action, {"setpoint": 0.3, "rate": 0.1})]))[:, 0]
    assert p.mean == pytest.approx(fit.offset + fit.scale * k @ np.linalg.solve(A, standard), abs=1e-6)


def test_a_certificate_is_the_worst_case_of_the_dense_model() -> None:
    opt = grid(ambiguity=drbo.TotalVariation(), bound_beta=2.0)
    x, xi = [0.0, 1.0, 2.5, 1.5], [0.2, -0.5, 0.0, 0.5]
    for a, c in zip(x, xi, strict=True):
        opt.tell(a, f(a, c), context=c)
    r = opt.recommend(radius=0.1)
    z, y = np.array(x) + xi, np.array([f(a, c) for a, c in zip(x, xi, strict=True)])
    k0 = RBF(0.6)
    K = k0(z[:, None], z[:, None]) + 0.05**2 * np.eye(4)
    atoms = np.squeeze(r.contexts)
    best = -np.inf
    for action in POINTS:
        k = k0(z[:, None], (action + atoms)[:, None])
        std = np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->j", k, np.linalg.solve(K, k)), 0.0))
        lower = y @ np.linalg.solve(K, k) - 2.0 * std
        order = np.argsort(-lower)  # total variation: a tenth of the mass goes from the best to the worst
        weights, left = r.reference.copy(), 0.1
        for j in order:
            moved = min(left, weights[j])
            weights[j] -= moved
            left -= moved
        weights[order[-1]] += 0.1
        best = max(best, float(weights @ lower))
    assert r.value == pytest.approx(best, abs=SOLVER)


# --- every kind -------------------------------------------------------------------------------------------------------


PAIRS = [(name, list(TWINS)[i % len(TWINS)]) for i, name in enumerate(MAKERS)]


@pytest.mark.parametrize(("name", "twin"), [*PAIRS, *(("grid, learned", twin) for twin in TWINS)])
def test_it_goes_on_with_the_same_bits(name: str, twin: str, tmp_path: Path) -> None:
    def answers(interrupt: bool) -> Any:
        opt = MAKERS[name]()
        for i in range(4):
            if interrupt:
                opt = TWINS[twin](opt, tmp_path / "state.json")
            step(opt, i)
            if i == 1:
                opt.ask(radius=0.1 if isinstance(opt.configuration.setting, General) else None)  # stays pending
        return bits([opt.history, opt.recommend(), opt.recommend_iterate()])

    assert answers(True) == answers(False)


@every
def test_every_query_answers(make: Callable[[], Optimizer]) -> None:
    opt = make()
    for i in range(4):
        step(opt, i)
    before = bits(opt.history)
    r = opt.recommend()
    assert r.gap >= 0.0
    assert "deploy" in str(r)
    assert np.isfinite([r.explain().expected, r.value]).all()
    profile = opt.under().profile([0.0, 0.1])
    sign = 1.0 if opt.configuration.maximize else -1.0
    assert sign * profile.bound[0] >= sign * profile.bound[1] - SOLVER
    same = opt.under().compare(r.action, r.action)
    assert (same.expected, same.worst) == pytest.approx((0.0, 0.0), abs=SOLVER)
    assert len(opt.leave_one_out().mean) == 4
    assert opt.under().regret_bound().value >= 0.0
    assert len(opt.to_frame()) == 4
    assert bits(opt.history) == before


@every
def test_failures_pending_corrections_and_vectors(make: Callable[[], Optimizer], tmp_path: Path) -> None:
    opt = make()
    terms: dict[str, Any] = {"radius": 0.1} if isinstance(opt.configuration.setting, General) else {}
    for i in range(3):
        step(opt, i)
    several = opt.ask(2, **terms)
    opt.tell(several[0], failed=True)
    opt.cancel(several[1])
    action, names = opt.results[0].action, opt.configuration.contexts.names
    rows = [[0.1], [-0.2], [0.15]] if names is None else [dict.fromkeys(names, c) for c in (0.1, -0.2, 0.15)]
    opt.tell(action, [f(action, c) for c in rows], contexts=rows, drawn=False)
    assert opt.leave_one_out().mean.shape == (6,)
    before = opt.predict(action, rows[0])
    opt.tell(action, 50.0, context=rows[0])
    wrong = opt.results[-1]
    assert opt.predict(action, rows[0]).mean != pytest.approx(before.mean, rel=1e-6)
    opt.amend(wrong, 49.0)
    opt.retract(wrong)
    after = opt.predict(action, rows[0])
    assert (after.mean, after.std) == pytest.approx((before.mean, before.std), rel=1e-3)
    assert opt.recommend().action is not None
    opt.save(tmp_path / "state.json")
    assert bits(Optimizer.load(tmp_path / "state.json").ask(**terms)) == bits(opt.ask(**terms))


def test_a_vector_told_many_times_is_fitted_as_it_is() -> None:
    """More outcomes in the same perturbations than make a block elsewhere: here the places differ, and are no block."""
    opt = grid(Perturbation(np.linspace(-0.4, 0.4, 40)), surrogate=LearnedGP(noise_correlation=0.2))
    rng = np.random.default_rng(0)
    rows = np.linspace(-0.4, 0.4, 40)[:, None]
    for i in range(8):
        opt.tell(POINTS[i], [f(POINTS[i], c) + 0.05 * rng.normal() for c in rows], contexts=rows)
    p = opt.predict(POINTS[4], [0.1])
    assert p.mean == pytest.approx(f(POINTS[4], [0.1]), abs=0.05)
    other = opt.predict(POINTS[3], [0.35])  # the same place
    assert (other.mean, other.std) == pytest.approx((p.mean, p.std), abs=1e-6)


def test_a_baseline_a_floor_and_a_budget() -> None:
    opt = grid(baseline=[1.0], explore_budget=2.0)
    for i in range(6):
        step(opt, i)
    s = opt.ask(floor=-5.0)
    assert s.loss <= 2.0
    assert opt.under().compare([1.5]).complete


def test_many_samples_are_compressed_and_still_certified() -> None:
    rng = np.random.default_rng(0)
    contexts = Perturbation(Samples(0.2 * rng.normal(size=400), atoms=30, support=8))
    opt = grid(contexts, Simulator(radius=0.05, pick="uncertain"))
    for i in range(4):
        step(opt, i)
    r = opt.recommend()
    assert r.gap >= 0.0
    assert r.value <= r.explain().expected


def test_a_known_kernel_gives_the_bound_of_lemma_1() -> None:
    opt = grid(beta=TheoreticalBeta(bound=2.0, noise=0.05, delta=0.1))
    for i in range(3):
        step(opt, i)
    z = np.array([place(r.action, r.context) for r in opt.results])[:, None]
    gain = np.linalg.slogdet(np.eye(3) + RBF(0.6)(z, z) / 0.05**2)[1]
    assert opt.recommend().beta == pytest.approx(math.sqrt(gain + 2.0 * math.log(10.0)) + 2.0, rel=SOLVER)


def test_a_reference_for_one_round() -> None:
    opt = box(Perturbation(setpoint=Normal(0.0, 0.3)))
    opt.tell({"setpoint": 20.0, "rate": 1.0, "stages": 1}, 1.0, context={"setpoint": 0.1})
    narrow = opt.recommend(reference=Perturbation(setpoint=Normal(0.0, 0.01)), radius=0.0)
    assert np.std([c["setpoint"] for c, w in zip(narrow.contexts, narrow.reference, strict=True) if w]) == (
        pytest.approx(0.01)
    )
    assert opt.recommend(reference=Samples({"setpoint": [0.2, 0.3]}), radius=0.0).reference.max() == 0.5


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"surrogate": GP(Product(RBF(0.2), RBF(0.3)), 0.1)}, TypeError, r"drbo.ConstantKernel\(\)"),
        ({"surrogate": LearnedGP(context=RBF(0.3))}, TypeError, "surrogate must have no context kernel"),
        ({"contexts": Perturbation(stages=[0.1])}, TypeError, "'stages', which is Integer"),
        (
            {"contexts": Perturbation(setpoint=Normal(0.0, 0.1)), "setting": DataDriven()},
            ValueError,
            "contexts have shares or a distribution",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        box(**arguments).ask()


def test_a_model_of_actions_alone_is_no_other_problem() -> None:
    """A constant kernel of contexts says that contexts do not matter, also where they are no perturbations."""
    opt = Optimizer(
        Box(x=(0.0, 1.0)),
        Box(a=(0.0, 1.0), b=(0.0, 1.0)),
        setting=Simulator(radius=0.1, pick="uncertain"),
        surrogate=GP(Product(RBF(0.3), ConstantKernel()), noise=0.1),
    )
    opt.tell({"x": 0.5}, 1.0, context={"a": 0.1, "b": 0.2})
    p, q = (opt.predict({"x": 0.4}, {"a": a, "b": 0.9}) for a in (0.0, 1.0))
    assert p.mean == pytest.approx(q.mean, rel=ROUNDING)
    r = opt.recommend()
    assert r.gap == pytest.approx(0.0, abs=1e-6)
