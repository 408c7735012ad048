"""An optimizer with Thompson sampling: the same bits after any interruption, in every kind of space."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import GP, RBF, Box, Informative, Matern, Optimizer, Pessimistic, Product, Simulator, Thompson, Uncertain
from optimizer.cosine import Cosine
from twins import TWINS

pytestmark = pytest.mark.usefixtures("still")
X, C = np.linspace(0, 1, 8), np.linspace(0, 1, 5)
FIXED = GP(Product(Matern(0.3), RBF(0.4)), 0.1)


def grid(**options: Any) -> Optimizer:
    return Optimizer(X, C, setting=Simulator(np.ones(5), 0.2), surrogate=FIXED, **options)


def labels(**options: Any) -> Optimizer:
    setting = drbo.DataDriven(radius=0.1)
    return Optimizer(["a", "b", "c"], {"young": 5, "old": 3}, setting=setting, maximize=False, **options)


def box(**options: Any) -> Optimizer:
    samples = drbo.Samples({"c": np.random.default_rng(0).normal(size=30)})
    actions = Box(x=(0.0, 2.0), k=drbo.Integer(0, 2))
    return Optimizer(actions, samples, setting=drbo.General(), surrogate=FIXED, **options)


def ranges(**options: Any) -> Optimizer:
    samples = drbo.Samples(np.random.default_rng(0).random((12, 1)), within=Box(c=(0.0, 1.0)))
    return Optimizer(X, samples, setting=Simulator(radius=0.2), surrogate=FIXED, **options)


def perturbed(**options: Any) -> Optimizer:
    wobble = drbo.Perturbation(x=drbo.Normal(0.0, 0.05))
    of_places = GP(Product(Matern(0.3), drbo.ConstantKernel()), 0.1)
    return Optimizer(Box(x=(0.0, 1.0)), wobble, setting=Simulator(radius=0.1), surrogate=of_places, **options)


SPACES: dict[str, tuple[Callable[..., Optimizer], Any, dict[str, Any]]] = {
    "grid": (grid, Informative(), {}),
    "labels": (labels, None, {}),
    "box": (box, None, {"radius": 0.2}),
    "range": (ranges, Pessimistic(), {}),
    "perturbed": (perturbed, Uncertain(), {}),
}


def told(opt: Optimizer, s: drbo.knowledge.Suggestion, y: float, kind: str) -> None:
    context: Any = {"labels": "old", "box": {"c": 0.3}}.get(kind)
    opt.tell(s, y, context=context)


@pytest.mark.parametrize(
    ("kind", "twin"), [*((kind, "saved") for kind in SPACES), *(("grid", twin) for twin in TWINS), ("box", "dropped")]
)
def test_the_same_bits_after_an_interruption(kind: str, twin: str, tmp_path: Path) -> None:
    make, rule, terms = SPACES[kind]
    opts = [make(policy=Thompson(rule), seed=3) for _ in range(2)]
    for i, y in enumerate([0.3, -0.5, 0.8, 0.1]):
        pairs = [opt.ask(2, **terms) for opt in opts]
        assert bits(pairs[0]) == bits(pairs[1])
        for opt, (first, second) in zip(opts, pairs, strict=True):
            if i == 1:
                opt.cancel(first)
            elif i == 2:
                opt.tell(first, failed=True)
            else:
                told(opt, first, y, kind)
            if i != 3:
                told(opt, second, -y, kind)  # one stays pending
        opts[1] = TWINS[twin](opts[1], tmp_path / f"{i}.json")


@pytest.mark.parametrize("kind", ["grid", "box"])
def test_draws_depend_on_the_seed_and_the_number_alone(kind: str) -> None:
    make, rule, terms = SPACES[kind]
    asked = [[bits(s.action_point) for s in make(policy=Thompson(rule), seed=seed).ask(6, **terms)] for seed in (0, 1)]
    assert len({repr(one) for one in asked[0]}) > 1  # each suggestion of a batch has a draw of its own
    assert asked[0] != asked[1]
    assert asked[0][1:] != asked[1][:-1]  # seed 1 does not go on one number later than seed 0
    opt = make(policy=Thompson(rule), seed=0)
    opt.recommend(**terms)  # a query changes nothing
    assert [bits(opt.ask(**terms).action_point) for _ in range(6)] == asked[0]


def test_with_a_floor_a_given_action_and_several_contexts() -> None:
    opt = grid(policy=Thompson(Uncertain()), baseline=X[2])
    for x in X[:4]:
        for c in C:
            opt.tell(x, float(x), context=c)
    assert opt.ask(action=X[3]).action_index == 3
    assert len(opt.ask(n_contexts=3).contexts) == 3
    safe = opt.ask(floor=0.1)
    assert opt.recommend().value > 0.1
    assert not safe.fallback
    assert opt.ask(floor=50.0).action_index == 2


def test_it_finds_the_robust_optimum() -> None:
    def f(x: Any, c: Any) -> float:
        return float(np.sin(5.0 * x) - 2.0 * (x - c) ** 2)

    opt = grid(policy=Thompson(Informative()))
    for _ in range(20):
        s = opt.ask()
        opt.tell(s, f(X[s.action_index], C[s.context_index]))
    table = np.array([[f(x, c) for c in C] for x in X])
    robust = drbo.MMD(C[:, None]).worst_case(table, np.full(5, 0.2), 0.2).expectation
    assert opt.recommend().action_index == int(np.argmax(robust))


def test_a_kernel_without_a_spectral_density_is_refused_where_draws_need_it() -> None:
    model = GP(Product(Cosine(), RBF(0.3)), 0.1)
    Optimizer(X, C, setting=Simulator(np.ones(5), 0.2), surrogate=model, policy=Thompson(Uncertain())).ask()
    with pytest.raises(TypeError, match=r"Cosine\(\) has no spectral density"):
        Optimizer(
            Box(x=(0, 1)),
            C,
            setting=Simulator(np.ones(5), 0.2),
            surrogate=model,
            policy=Thompson(Uncertain()),
        )
    within = drbo.Samples([[0.1], [0.2]], within=Box(c=(0, 1)))
    turned = GP(Product(RBF(0.3), Cosine()), 0.1)
    with pytest.raises(TypeError, match=r"Cosine\(\) has no spectral density"):
        Optimizer(X, within, setting=Simulator(radius=0.2), surrogate=turned, policy=Thompson(Uncertain()))
