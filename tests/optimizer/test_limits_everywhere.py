"""Limits with every kind of space, setting, policy and model: what holds of all of them.

Pairs of values are covered, not all products: every row of `WALK` is one run with failures, missing values, vectors
where the setting allows them, and a file in the middle.
"""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import AtLeast, AtMost, Measured, NotReachedError, Optimizer
from drbo.knowledge import Suggestion

RNG = np.random.default_rng(0)
GRID = np.linspace(0.0, 1.0, 7)
SPACES: dict[str, Any] = {
    "grid": GRID,
    "labels": drbo.Ordinal("low", "middle", "high"),
    "box": drbo.Box(x=(0.0, 1.0), n=drbo.Integer(1, 3), mode=drbo.Categorical("a", "b")),
}
CONTEXTS: dict[str, Any] = {
    "points": np.linspace(0.0, 1.0, 5),
    "labels": {"calm": 5, "storm": 2, "night": 1},
    "samples": drbo.Samples({"c": RNG.random(12)}),
    "packed": drbo.Samples({"c": RNG.random(150)}, atoms=8),
    "range": drbo.Box(c=(0.0, 1.0)),
}
POLICIES: dict[str, Any] = {
    "default": None,
    "optimism": drbo.Optimism(drbo.Pessimistic()),
    "thompson": drbo.Thompson(drbo.Informative()),
    "valuable": drbo.ValueOfInformation(draws=4),
    "joint": drbo.JointOptimism(drbo.Uncertain()),
    "satisficing": drbo.Satisficing(1.0, contexts=drbo.Informative()),
    "checked": drbo.Checked(drbo.Thompson(drbo.Informative())),
    "embedding": drbo.MeanEmbedding(drbo.Informative()),
}
WALK = [  # actions, contexts, setting, policy, learned, maximise, chance
    ("grid", "points", "simulator", "default", True, True, True),
    ("grid", "points", "simulator", "valuable", False, False, True),
    ("grid", "points", "general", "default", False, True, False),
    ("grid", "labels", "driven", "default", True, False, True),
    ("grid", "packed", "simulator", "joint", False, True, False),
    ("grid", "range", "simulator", "optimism", False, False, False),
    ("grid", "samples", "simulator", "satisficing", True, True, True),
    ("labels", "labels", "simulator", "default", True, True, True),
    ("labels", "points", "driven", "default", False, False, False),
    ("labels", "range", "simulator", "thompson", False, True, False),
    ("labels", "samples", "general", "default", True, False, True),
    ("labels", "packed", "simulator", "checked", True, True, False),
    ("box", "points", "simulator", "checked", True, False, True),
    ("box", "labels", "simulator", "thompson", True, True, True),
    ("box", "samples", "driven", "default", True, True, True),
    ("box", "packed", "simulator", "default", True, False, False),
    ("box", "range", "simulator", "default", True, True, False),
    ("box", "samples", "simulator", "valuable", False, False, False),
    ("box", "labels", "general", "default", False, True, True),
    ("box", "points", "simulator", "embedding", False, True, False),
    ("box", "samples", "simulator", "joint", True, False, True),
]


def of_action(action: Any) -> float:
    if isinstance(action, dict):
        return float(0.6 * action["x"] + 0.1 * action["n"] + (0.1 if action["mode"] == "a" else 0.0))
    return {"low": 0.1, "middle": 0.5, "high": 0.9}[action] if isinstance(action, str) else float(np.squeeze(action))


def of_context(context: Any) -> float:
    if isinstance(context, dict):
        context = context["c"]
    return (
        {"calm": 0.1, "storm": 0.9, "night": 0.5}[context] if isinstance(context, str) else float(np.squeeze(context))
    )


def objective(x: float, c: float) -> float:
    return x - 0.5 * x * c


def peak(x: float, c: float) -> float:
    return 10.0 * x * (1.5 - c)


def flow(x: float, c: float) -> float:
    return 0.01 * (x + 0.2 * c)


def drawn(opt: Optimizer, k: int) -> Any:
    space = opt.configuration.nature.space
    every = opt.configuration.nature.seen([])  # the contexts before any was seen
    return space.decode(every.atom(k % len(every.points)))


def make(row: tuple[Any, ...]) -> Optimizer:
    actions, contexts, setting, policy, learned, maximize, chance = row
    rules: dict[str, Any] = {
        "simulator": lambda: drbo.Simulator(np.full(5, 0.2) if contexts == "points" else None, 0.1),
        "general": drbo.General,
        "driven": lambda: drbo.DataDriven(radius=0.1),
    }
    flows = AtLeast(0.004, probability=0.6) if chance else AtLeast(0.004)
    kernel = drbo.Product(drbo.RBF(0.6), drbo.RBF(0.6))
    return Optimizer(
        SPACES[actions],
        CONTEXTS[contexts],
        ambiguity=drbo.TotalVariation() if contexts == "labels" else drbo.MMD(),
        setting=rules[setting](),
        surrogate=None if learned else drbo.GP(kernel, 0.05),
        policy=POLICIES[policy],
        maximize=maximize,
        limits={"peak": AtMost(9.0), "flow": flows},
        baseline=baseline(actions),
        outcome="gain",
    )


def baseline(actions: str) -> Any:
    return {"grid": GRID[2], "labels": "middle", "box": {"x": 0.4, "n": 1, "mode": "a"}}[actions]


def ask(opt: Optimizer, **more: Any) -> Suggestion:
    if isinstance(opt.configuration.setting, drbo.General):
        more["radius"] = 0.1
        if isinstance(opt.configuration.arguments["contexts"], np.ndarray):
            more["reference"] = np.full(5, 0.2)
    s: Suggestion = opt.ask(**more)
    return s


def tell(opt: Optimizer, s: Suggestion, k: int) -> None:
    sign = 1.0 if opt.configuration.maximize else -1.0
    contexts = list(s.contexts) or [drawn(opt, k), drawn(opt, k + 1)][: 1 + k % 2]
    given: dict[str, Any] = {} if s.contexts else {"contexts": contexts}
    if k == 2:
        opt.tell(s, failed=True, **given)
        return
    x, cs = of_action(s.action), [of_context(c) for c in contexts]
    peaks, flows = [peak(x, c) for c in cs], [Measured(flow(x, c), stderr=1e-4) for c in cs]
    limits = {"peak": None if k == 3 else peaks, "flow": flows}
    opt.tell(s, None if k == 4 else [sign * objective(x, c) for c in cs], limits=limits, **given)


def check(opt: Optimizer) -> None:
    """Check that limits are what they say they are, for the recommended or the closest action."""
    closest = None
    try:
        found = opt.recommend()
    except NotReachedError as error:
        found = closest = error.closest  # type: ignore[assignment]
    assert all(one.holds for one in found.limits.values()) == (closest is None)
    again = opt.bound(found.action)
    for name, one in found.limits.items():
        limit = opt.configuration.limits[name]
        within = one.value >= one.threshold - 1e-9
        if limit.probability is None:
            within = limit.sign * (one.value - one.threshold) >= -1e-9
        assert within == one.holds
        assert one.weights.sum() == pytest.approx(1.0)
        assert len(one.contexts) == len(one.weights)
        assert again.limits[name].value == pytest.approx(one.value, rel=1e-6)
        assert name in str(found)


@pytest.mark.parametrize("row", WALK, ids=lambda row: "-".join(map(str, row)))
def test_walk(row: tuple[Any, ...], tmp_path: Path) -> None:
    opt = make(row)
    for k in range(6):
        tell(opt, ask(opt), k)
        if k == 3:
            opt.save(tmp_path / "run.drbo")
            twin = Optimizer.load(tmp_path / "run.drbo")
            assert bits(ask(twin)) == bits(ask(opt))
            opt.cancel(opt.pending[0])
    safe = ask(opt, safe=True) if row[3] != "satisficing" else None
    if safe is not None and not safe.fallback:
        assert all(one.holds for one in opt.bound(safe.action).limits.values())
    check(opt)
    assert {"gain", "peak", "flow"} <= set(opt.to_frame())
    assert opt.under().regret_bound().value >= 0.0
    for name in ("gain", "peak", "flow"):
        assert np.isfinite(opt.predict(baseline(row[0]), drawn(opt, 0), outcome=name).mean)


def test_threads() -> None:
    """Several threads ask and tell; all is there in the end, and the answers are those of one thread."""
    opt = make(WALK[0])
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                s = opt.ask()
                x, c = of_action(s.action), of_context(s.context)
                opt.tell(s, objective(x, c), limits={"peak": peak(x, c), "flow": flow(x, c)})
                str(opt.bound(GRID[3]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert opt.n_told == 12
    twin = make(WALK[0])
    twin.replay(opt.records())
    assert bits(twin.bound(GRID[3])) == bits(opt.bound(GRID[3]))
