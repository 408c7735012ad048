"""Constraints on actions, through the optimizer: nothing that it suggests or recommends breaks one."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from spaces.polytopes import violation


def warm(action: dict[str, Any]) -> bool:
    """Return whether an action is permitted."""
    return bool(action["a"] + action["n"] >= 0.2)


def mixture() -> drbo.Box:
    """Return a box of shares, a whole number and a choice, with constraints of all kinds."""
    return drbo.Box(
        {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0), "n": drbo.Integer(0, 3), "k": drbo.Categorical("u", "v")},
        constraints=[
            drbo.Total("a", "b", "c", equals=1.0),
            drbo.LinearConstraint({"a": 1.0, "n": -0.3}, at_most=0.1),
            drbo.AtMostActive("a", "b", "c", count=2),
            warm,
        ],
    )


def optimizer(box: drbo.Box, **more: Any) -> drbo.Optimizer:
    kernel = drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5))
    given: dict[str, Any] = {"setting": drbo.Simulator(radius=0.1), "surrogate": drbo.GP(kernel, 0.05), **more}
    return drbo.Optimizer(box, drbo.Samples(np.linspace(0, 1, 6)[:, None], names=["t"]), **given)


def outcome(action: dict[str, Any], context: Any) -> float:
    numbers = [value for value in action.values() if not isinstance(value, str)]
    return float(sum(np.sin(3 * value + i) for i, value in enumerate(numbers)) * (0.5 + context["t"]))


def run(opt: drbo.Optimizer, box: drbo.Box, rounds: int, **terms: Any) -> None:
    for _ in range(rounds):
        s = opt.ask(**terms)
        assert violation(box, s.action) <= 1e-9
        opt.tell(s, outcome(s.action, s.context))


POLICIES = [
    drbo.Optimism(drbo.Informative()),
    drbo.Thompson(drbo.Uncertain()),
    drbo.ValueOfInformation(draws=8),
    drbo.JointOptimism(drbo.Uncertain()),
    drbo.Checked(),
    drbo.MeanEmbedding(drbo.Uncertain()),
    drbo.Satisficing(0.5, contexts=drbo.Uncertain()),
    drbo.LevelSet(drbo.Chance(0.5, above=0.0), contexts=drbo.Uncertain()),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_no_policy_breaks_a_constraint(policy: drbo.Policy) -> None:
    box = mixture()
    opt = optimizer(box, policy=policy)
    run(opt, box, 4)
    for s in opt.ask(2):
        assert violation(box, s.action) <= 1e-9
    assert violation(box, opt.recommend().action) <= 1e-9
    assert violation(box, opt.recommend_iterate().action) <= 1e-9


def test_an_infeasible_outcome_is_taken_and_never_recommended() -> None:
    box = mixture()
    opt = optimizer(box)
    run(opt, box, 2)
    best = {"a": 1.0, "b": 1.0, "c": 1.0, "n": 0, "k": "u"}
    for t in np.linspace(0, 1, 6):
        opt.tell(best, 100.0, context={"t": t})
    assert opt.n_told == 8
    q = opt.under()
    assert q.bound(best).value > 50.0  # a bound of any action may be asked for
    for action in (opt.recommend().action, opt.ask().action, opt.recommend_iterate().action):
        assert violation(box, action) <= 1e-9
    past = q.backtest([0.0, 0.1], window=2, past=[{"t": t} for t in np.linspace(0, 1, 6)])
    assert all(violation(box, action) <= 1e-9 for action in past.candidates)


def test_floors_and_chances() -> None:
    box = mixture()
    today = {"a": 0.0, "b": 0.5, "c": 0.5, "n": 1, "k": "u"}
    opt = optimizer(box, baseline=today)
    run(opt, box, 3, floor=-0.5)
    chance = drbo.Chance(0.5, above=-20.0)
    limited = optimizer(box, limits={"outcome": drbo.AtLeast(-20.0, probability=0.5)})
    run(limited, box, 3)
    assert violation(box, limited.recommend().action) <= 1e-9
    given = [today, {**today, "n": 2}]
    assert opt.under().classify(chance, actions=given).labels == ("in", "in")
    with pytest.raises(ValueError, match="baseline must satisfy the constraints of the actions, but breaks Total"):
        optimizer(box, baseline={**today, "b": 0.9})
    with pytest.raises(ValueError, match=r"action must satisfy .* breaks at most 2 of a, b, c differ from zero: 3 do"):
        opt.ask(action={"a": 0.2, "b": 0.4, "c": 0.4, "n": 1, "k": "u"})
    with pytest.raises(ValueError, match=r"action must satisfy .* breaks the function warm"):
        opt.ask(action={"a": 0.0, "b": 0.5, "c": 0.5, "n": 0, "k": "u"})
    assert opt.ask(action=today).action == pytest.approx(today)


def test_saved_and_copied_with_the_same_bits(tmp_path: Path) -> None:
    box = mixture()
    opt = optimizer(box)
    run(opt, box, 2)
    opt.save(tmp_path / "a.drbo")
    again = drbo.Optimizer.load(tmp_path / "a.drbo", classes=[warm])
    twin = copy.deepcopy(opt)
    assert opt.ask().action == again.ask().action == twin.ask().action
    assert opt.recommend().action == again.recommend().action
    with pytest.raises(ValueError, match=r"needs the function .*warm: pass it, .*classes=\[warm\]"):
        drbo.Optimizer.load(tmp_path / "a.drbo")
    assert optimizer(mixture()).resume(tmp_path / "a.drbo") is None


def test_contexts_refuse_constraints() -> None:
    box = drbo.Box(t=(0.0, 1.0), u=(0.0, 1.0), constraints=[drbo.Total("t", "u", at_most=1.0)])
    with pytest.raises(TypeError, match="contexts must not have constraints: nature may choose any point"):
        drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), box, setting=drbo.Simulator(radius=0.1))


def test_a_report_draws_feasible_actions_only(tmp_path: Path) -> None:
    box = drbo.Box(dict.fromkeys("abc", (0.0, 1.0)), constraints=[drbo.Total("a", "b", "c", equals=1.0)])
    opt = optimizer(box)
    run(opt, box, 3)
    seen: list[dict[str, Any]] = []
    predict = drbo.Optimizer.predict

    def watched(self: drbo.Optimizer, actions: Any, contexts: Any, **more: Any) -> Any:
        seen.extend(actions)
        return predict(self, actions, contexts, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drbo.Optimizer, "predict", watched)
        opt.report(tmp_path / "report.html")
    assert len(seen) > 1000
    assert max(violation(box, action) for action in seen) <= 1e-9


def test_a_log_with_infeasible_rows() -> None:
    """Shares of a log are rounded: its rows are facts, and the recommendation is exact."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 12).round(2)
    frame = {name: shares[:, i] for i, name in enumerate("abc")}
    frame |= {"t": rng.random(12), "y": shares[:, 0] - (shares[:, 1] - 0.3) ** 2}
    box = drbo.Box(dict.fromkeys("abc", (0.0, 1.0)), constraints=[drbo.Total("a", "b", "c", equals=1.0)])
    opt = drbo.Optimizer.from_frame(frame, box, ["t"], "y", radius=0.1)
    assert opt.n_told == 12
    assert violation(box, opt.recommend().action) <= 1e-9
    assert violation(box, opt.ask().action) <= 1e-9


def test_minimised_outcomes_of_any_size() -> None:
    box = drbo.Box(dict.fromkeys("abc", (0.0, 1000000000.0)), constraints=[drbo.Total("a", "b", "c", equals=1e9)])
    opt = drbo.Optimizer(
        box, drbo.Samples(np.zeros((1, 1)), names=["t"]), setting=drbo.Simulator(radius=0.0), maximize=False
    )
    for _ in range(6):
        s = opt.ask()
        assert violation(box, s.action) <= 1e-9
        opt.tell(s, 1e-9 * (s.action["a"] / 1e9 - 0.7) ** 2)
    assert violation(box, opt.recommend().action) <= 1e-9


CONSTRAINED: dict[str, list[Any]] = {
    "equality": [drbo.Total("a", "b", "c", equals=1.0)],
    "inequality": [drbo.LinearConstraint({"a": 1.0, "b": -1.0}, at_least=0.2)],
    "zeros": [drbo.AtMostActive("a", "b", "c", count=2)],
    "function": [lambda action: bool(action["a"] ** 2 + action["b"] ** 2 <= 0.6)],
}


@pytest.mark.parametrize("kind", CONSTRAINED)
def test_suggestions_and_recommendations_under_limits_satisfy_the_constraints(kind: str) -> None:
    """The ascent under limits of outcomes once left the constraints of the actions."""
    box = drbo.Box(dict.fromkeys("abc", (0.0, 1.0)), constraints=CONSTRAINED[kind])
    contexts = drbo.Samples({"c": np.random.default_rng(0).random(12)})
    opt = drbo.Optimizer(
        box,
        contexts,
        ambiguity=drbo.Wasserstein(),
        setting=drbo.Simulator(radius=0.1),
        limits={"peak": drbo.AtMost(5.0)},
    )
    for _ in range(8):
        s = opt.ask()
        assert box.permits(box.encode("action", s.action).coordinates[None])[0], s.action
        x, c = s.action["a"], s.context["c"]
        opt.tell(s, x - 0.5 * x * c, limits={"peak": 10.0 * x * (1.5 - c)})
    try:
        r: Any = opt.recommend()
    except drbo.NotReachedError as error:
        r = error.closest
    assert box.permits(box.encode("action", r.action).coordinates[None])[0], r.action
