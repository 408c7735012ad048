"""Many evaluations in the same contexts: the optimizer uses their structure, and nothing else changes."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bits import bits
from drbo import GP, RBF, Box, DataDriven, LearnedGP, Optimizer, Product, Samples, Setting, Simulator, TheoreticalBeta
from drbo.models.data import Outcomes
from drbo.models.kronecker import KroneckerPosterior
from exact import exact
from tolerances import SOLVER
from twins import TWINS

pytestmark = pytest.mark.usefixtures("still")

X, C = np.linspace(0, 1, 9), np.linspace(0, 1, 32)
FIXED = GP(Product(RBF(0.4), RBF(0.5)), noise=0.2, noise_correlation=0.4)
UNIFORM = np.full(32, 1 / 32)


def grid(setting: Setting | None = None, **more: Any) -> Optimizer:
    chosen = Simulator(UNIFORM, 0.1, pick="uncertain") if setting is None else setting
    return Optimizer(X, C, setting=chosen, **{"surrogate": FIXED, **more})


def box(within: Box | None = None, **more: Any) -> Optimizer:
    samples = Samples({"c": np.linspace(0.1, 0.9, 20)}, within=within, support=8)
    return Optimizer(
        Box(x=(0.0, 1.0)), samples, setting=Simulator(radius=0.1, pick="uncertain"), **{"surrogate": FIXED, **more}
    )


def f(x: float, c: Any, rng: np.random.Generator) -> Any:
    return np.sin(4 * x) + x * np.cos(3 * c) + 0.15 * rng.normal() + 0.1 * rng.normal(size=np.shape(c))


def action(opt: Optimizer, i: int) -> Any:
    return {"x": float(X[i % 9])} if isinstance(opt.configuration.actions, Box) else X[i % 9]


def rows(opt: Optimizer) -> Any:
    return [{"c": float(c)} for c in C] if isinstance(opt.configuration.actions, Box) else C


def tell(opt: Optimizer, first: int, last: int) -> None:
    """Tell evaluations in all contexts, with two others among them."""
    for i in range(first, last):
        rng = np.random.default_rng(i)
        opt.tell(action(opt, 2 * i), f(float(X[2 * i % 9]), C, rng), contexts=rows(opt))
        if i in (2, 7):
            opt.tell(action(opt, i), [0.3, 0.4], contexts=rows(opt)[3:5], stderr=0.3 if i == 2 else None)


def dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outcomes, "common", lambda _: None)


MAKERS: dict[str, Callable[..., Optimizer]] = {
    "grid": grid,
    "minimised": lambda **more: grid(maximize=False, **more),
    "data": lambda **more: grid(DataDriven(), **more),
    "box": box,
    "range": lambda **more: box(Box(c=(0.0, 1.0)), **more),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@every
def test_answers_are_those_of_the_dense_model(make: Callable[..., Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[Any]:
        opt = make()
        tell(opt, 0, 9)
        opt.tell(action(opt, 1), failed=True, contexts=rows(opt))
        opt.tell(action(opt, 8), failed=True, contexts=rows(opt)[:1])
        s = opt.ask()
        predicted = [opt.predict(action(opt, i), rows(opt)[i]) for i in range(9)]
        kind = type(opt._known.belief(opt._known.state).searching)
        return [kind, s.action, s.score, opt.recommend().value, [p.mean for p in predicted], [p.std for p in predicted]]

    structured = answers()
    dense(monkeypatch)
    plain = answers()
    assert structured[0] is KroneckerPosterior
    assert plain[0] is not KroneckerPosterior
    if isinstance(plain[1], dict):
        assert structured[1]["x"] == pytest.approx(plain[1]["x"], abs=1e-3)
    else:
        assert structured[1] == plain[1]
    # A failure between two outcomes counts for what comes after it where observations are taken in one by one.
    assert structured[2] == pytest.approx(plain[2], abs=0.02)
    assert structured[3] == pytest.approx(plain[3], abs=1e-6)
    np.testing.assert_allclose(structured[4], plain[4], atol=SOLVER)
    np.testing.assert_allclose(structured[5], plain[5], atol=SOLVER)


def test_a_failure_in_the_same_contexts_moves_no_mean() -> None:
    opt = grid()
    tell(opt, 0, 9)
    opt.tell(X[1], failed=True, contexts=C)
    belief = opt._known.belief(opt._known.state)
    certain, searching = exact(belief.certain).on_grid(), exact(belief.searching).on_grid()
    np.testing.assert_allclose(searching[0], certain[0], atol=SOLVER)
    assert (searching[1][1] < certain[1][1]).all()
    assert opt.recommend().action != X[1]


def test_outcomes_outside_the_block_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> Optimizer:
        opt = grid()
        tell(opt, 0, 9)
        opt.ask()
        for i in range(45):
            opt.tell(X[i % 9], 0.1 * i, context=C[i % 32])
        return opt

    opt = told()
    assert not isinstance(opt.posterior, KroneckerPosterior)
    dense(monkeypatch)
    assert bits(opt.recommend()) == bits(told().recommend())


def test_leaving_one_out_is_in_the_order_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_out() -> Any:
        opt = grid()
        tell(opt, 0, 9)
        return opt.leave_one_out()

    structured = left_out()
    dense(monkeypatch)
    plain = left_out()
    np.testing.assert_array_equal(structured.outcome, plain.outcome)
    np.testing.assert_allclose(structured.mean, plain.mean, atol=SOLVER)
    np.testing.assert_allclose(structured.std, plain.std, atol=SOLVER)


def test_a_theoretical_width_knows_the_information_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def width() -> float:
        opt = grid(beta=TheoreticalBeta(bound=1.0, noise=0.2))
        tell(opt, 0, 9)
        return opt.recommend(radius=0.1).beta

    structured = width()
    dense(monkeypatch)
    assert structured == pytest.approx(width(), rel=SOLVER)


# --- the same bits ----------------------------------------------------------------------------------------------------


def drive(make: Callable[..., Optimizer], surrogate: Any, between: Callable[[Optimizer], Optimizer]) -> Any:
    """Return all answers of a run in which a block begins, with failures, pending evaluations and corrections."""
    opt = make(surrogate=surrogate)
    found: list[Any] = []
    tell(opt, 0, 7)
    for step in range(7, 11):
        opt = between(opt)
        s = opt.ask(n_contexts=2)
        found.append(s)
        opt = between(opt)
        tell(opt, step, step + 1)
        if step == 8:
            opt.tell(s, failed=True)
        if step == 9:
            opt.tell(action(opt, 3), failed=True, contexts=rows(opt))
    opt = between(opt)
    opt.recommend()
    opt.retract(1)
    opt.amend(0, stderr=0.5)
    opt = between(opt)
    assert isinstance(opt.posterior, KroneckerPosterior)
    return bits([found, opt.history, opt.pending, opt.recommend(), opt.recommend_iterate(), opt.ask()])


@functools.cache
def undisturbed(make: Any, surrogate: Any) -> Any:
    return drive(make, surrogate, lambda opt: opt)


@pytest.mark.parametrize(
    ("make", "surrogate", "twin"),
    [
        *(pytest.param(grid, FIXED, twin, id=f"grid-{name}") for name, twin in TWINS.items()),
        pytest.param(box, LearnedGP(), TWINS["saved"], id="box, learned-saved"),
        pytest.param(box, LearnedGP(), TWINS["dropped"], id="box, learned-dropped"),
        pytest.param(MAKERS["range"], FIXED, TWINS["saved"], id="range-saved"),
        pytest.param(MAKERS["range"], FIXED, TWINS["copied"], id="range-copied"),
    ],
)
def test_a_twin_goes_on_with_the_same_bits(make: Any, surrogate: Any, twin: Any, tmp_path: Path) -> None:
    assert drive(make, surrogate, lambda opt: twin(opt, tmp_path / "state.drbo")) == undisturbed(make, surrogate)
