"""An optimizer that chooses by the value of information, or by joint optimism: the same bits after any interruption, in
every space.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import GP, RBF, Box, Matern, Optimizer, Product, Simulator
from optimizer.cosine import Cosine
from twins import TWINS

pytestmark = pytest.mark.usefixtures("still")
X, C = np.linspace(0, 1, 8), np.linspace(0, 1, 5)
POLICIES = {"valuable": None, "joint": drbo.JointOptimism(drbo.Informative())}
"""None: what the setting picks."""
FIXED = GP(Product(Matern(0.3), RBF(0.4)), 0.1)


def _pick(options: dict[str, Any]) -> Any:
    return None if options.get("policy") else "valuable"


def grid(**options: Any) -> Optimizer:
    return Optimizer(X, C, setting=Simulator(np.ones(5), 0.2, pick=_pick(options)), surrogate=FIXED, **options)


def labels(**options: Any) -> Optimizer:
    setting = Simulator(radius=0.1, pick=_pick(options))
    return Optimizer(["a", "b", "c"], {"young": 5, "old": 3}, setting=setting, maximize=False, **options)


def box(**options: Any) -> Optimizer:
    samples = drbo.Samples({"c": np.random.default_rng(0).normal(size=30)})
    actions = Box(x=(0.0, 2.0), k=drbo.Integer(0, 2))
    return Optimizer(actions, samples, setting=Simulator(radius=0.1, pick=_pick(options)), **options)


def ranges(**options: Any) -> Optimizer:
    samples = drbo.Samples(np.random.default_rng(0).random((12, 1)), within=Box(c=(0.0, 1.0)))
    return Optimizer(X, samples, setting=Simulator(radius=0.2, pick=_pick(options)), surrogate=FIXED, **options)


def perturbed(**options: Any) -> Optimizer:
    wobble = drbo.Perturbation(x=drbo.Normal(0.0, 0.05))
    of_places = GP(Product(Matern(0.3), drbo.ConstantKernel()), 0.1)
    setting = Simulator(radius=0.1, pick=_pick(options))
    return Optimizer(Box(x=(0.0, 1.0)), wobble, setting=setting, surrogate=of_places, **options)


SPACES: dict[str, Callable[..., Optimizer]] = {
    "grid": grid, "labels": labels, "box": box, "range": ranges, "perturbed": perturbed,
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("kind", "twin"), [*((kind, "saved") for kind in SPACES), *(("grid", twin) for twin in TWINS), ("box", "dropped")]
)
def test_the_same_bits_after_an_interruption(kind: str, twin: str, policy: str, tmp_path: Path) -> None:
    opts = [SPACES[kind](seed=3, policy=POLICIES[policy]) for _ in range(2)]
    for i, y in enumerate([0.3, -0.5, 0.8]):
        asked = [opt.ask(2 if i == 1 else 1) for opt in opts]
        assert bits(asked[0]) == bits(asked[1])
        for opt, batch in zip(opts, asked, strict=True):
            opt.tell(batch[0], **({"failed": True} if i == 2 else {"outcome": y}))  # of the batch one stays pending
        opts[1] = TWINS[twin](opts[1], tmp_path / f"{i}.json")
    assert bits(opts[0].ask()) == bits(opts[1].ask())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["grid", "box", "range"])
def test_a_batch_differs_and_a_query_changes_nothing(kind: str, policy: str) -> None:
    opts = [SPACES[kind](seed=1, policy=POLICIES[policy]) for _ in range(2)]
    batches = []
    for opt, query in zip(opts, (False, True), strict=True):
        opt.tell(opt.ask(), 0.5)
        if query:
            opt.recommend()
        batches.append(opt.ask(2))
    assert bits(batches[0]) == bits(batches[1])
    first, second = batches[0]
    assert bits((first.action_point, first.context_point)) != bits((second.action_point, second.context_point))


def test_with_a_floor_a_given_action_and_several_contexts() -> None:
    opt = grid(baseline=X[2])
    for x in X[:4]:
        for c in C:
            opt.tell(x, float(x), context=c)
    assert opt.ask(action=X[3]).action_index == 3
    several = opt.ask(n_contexts=3)
    assert len({c.item() for c in several.contexts}) == 3
    opt.tell(several, [0.3, 0.4, 0.2])  # a vector
    safe = opt.ask(floor=0.1)
    assert not safe.fallback
    assert opt.predict(X[safe.action_index], 0.0).lower > -0.5
    assert opt.ask(floor=50.0).action_index == 2


def test_a_floor_where_contexts_have_a_range() -> None:
    opt = ranges(baseline=X[2])
    for x in X[:4]:
        for c in C:
            opt.tell(x, float(x), context={"c": c})
    assert opt.ask(floor=-1.0).context is not None
    assert opt.ask(floor=50.0).action_index == 2


@pytest.mark.parametrize("learned", [False, True])
def test_it_finds_the_robust_optimum(learned: bool) -> None:
    def f(x: Any, c: Any) -> float:
        return float(np.sin(5.0 * x) - 2.0 * (x - c) ** 2)

    opt = grid() if not learned else Optimizer(X, C, setting=Simulator(np.ones(5), 0.2, pick="valuable"))
    for _ in range(20):
        s = opt.ask()
        opt.tell(s, f(X[s.action_index], C[s.context_index]))
    table = np.array([[f(x, c) for c in C] for x in X])
    robust = opt.configuration.placed.worst_case(table, np.full(5, 0.2), 0.2).expectation
    assert opt.recommend().action_index == int(np.argmax(robust))
    assert opt.configuration.policy.theorem("Theorem 2") is None


def test_a_kernel_without_a_spectral_density_is_refused_where_draws_need_it() -> None:
    setting = Simulator(radius=0.1, pick="valuable")
    model = GP(Product(Cosine(), RBF(0.3)), 0.1)
    Optimizer(Box(x=(0.0, 1.0)), drbo.Samples(C[:, None]), setting=setting, surrogate=model).ask()  # few actions: exact
    wobble, model = drbo.Perturbation(x=drbo.Normal(0.0, 0.05)), GP(Product(Cosine(), drbo.ConstantKernel()), 0.1)
    with pytest.raises(TypeError, match=r"no spectral density.*pick='informative'"):
        Optimizer(Box(x=(0.0, 1.0)), wobble, setting=setting, surrogate=model)
