"""An evaluation that failed is not asked for again, as long as there is another one."""

from typing import Any

import numpy as np
import pytest

from drbo import (
    GP,
    RBF,
    Box,
    General,
    Informative,
    Integer,
    JointOptimism,
    Matern,
    Optimism,
    Optimizer,
    Pessimistic,
    Product,
    Samples,
    Simulator,
    Thompson,
    Uncertain,
    ValueOfInformation,
)
from drbo.knowledge import Suggestion

X, C = np.linspace(0.0, 1.0, 4), np.linspace(0.0, 1.0, 3)
FIXED = GP(Product(Matern(0.3), RBF(0.3)), 0.5)  # so noisy that a repetition looks worthwhile
SPACES: dict[str, tuple[Any, Any, int]] = {
    "grid": (X, C, 12),
    "grid, samples": (X, Samples(C[:, None]), 12),
    "grid, range": (X, Samples(C[:, None], within=Box(c=(0.0, 1.0))), 12),
    "whole numbers": (Box(n=Integer(1, 4)), C, 12),
    "box": (Box(x=(0.0, 1.0)), C, 12),
    "box, range": (Box(x=(0.0, 1.0)), Box(c=(0.0, 1.0)), 12),
}
POLICIES: dict[str, Any] = {
    "informative": Optimism(Informative()),
    "uncertain": Optimism(Uncertain()),
    "pessimistic": Optimism(Pessimistic()),
    "joint": JointOptimism(Informative()),
    "Thompson": Thompson(Uncertain()),
    "valuable": ValueOfInformation(draws=8),
}


def make(kind: str, policy: Any, **more: Any) -> Optimizer:
    actions, contexts, _ = SPACES[kind]
    reference = np.ones(3) if contexts is C else None
    return Optimizer(
        actions, contexts, setting=Simulator(reference, 0.2), surrogate=FIXED, policy=policy, beta=0.5, **more
    )


def pairs(s: Suggestion) -> list[tuple[bytes, bytes]]:
    """Return the evaluations of a suggestion, rounded as a file or a user may round them."""
    x = np.round(s.action_point.coordinates, 9).tobytes()
    return [
        (x, np.round(np.atleast_1d(list(c.values()) if isinstance(c, dict) else c), 9).tobytes()) for c in s.contexts
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", SPACES)
def test_what_failed_is_not_asked_again_until_all_has_failed(kind: str, policy: str) -> None:
    """REVIEW W6. The action with the best mean fails always: every pair is tried once before any is tried again."""
    opt = make(kind, POLICIES[policy])
    best = {"grid": X[3], "box": {"x": 1.0}, "whole numbers": {"n": 4}}[kind.split(",")[0]]
    opt.tell(best, 5.0, context={"c": 0.5} if "range" in kind else C[1])
    tried: list[tuple[bytes, bytes]] = []
    for _ in range(SPACES[kind][2]):
        s = opt.ask()
        tried += pairs(s)
        opt.tell(s, failed=True)
    assert len(set(tried)) == len(tried)
    opt.tell(opt.ask(), failed=True)  # where all has failed, something is asked for all the same


@pytest.mark.parametrize("kind", ["grid", "box"])
@pytest.mark.parametrize("policy", ["informative", "uncertain", "Thompson"])
def test_several_contexts_and_several_workers(kind: str, policy: str) -> None:
    """REVIEW W6: four workers with `ask(n_contexts=...)`; a failure is of all contexts of its suggestion."""
    opt = make(kind, POLICIES[policy])
    opt.tell(X[3] if kind == "grid" else {"x": 1.0}, 5.0, context=C[1])
    failed: set[tuple[bytes, bytes]] = set()
    under_way = [opt.ask(n_contexts=2) for _ in range(2)]
    for _ in range(4):
        s = under_way.pop(0)
        failed |= set(pairs(s))
        opt.tell(s, failed=True)
        more = opt.ask(2, n_contexts=2)
        under_way += more
        if kind == "box" or len(failed) <= 10:
            assert not failed & {pair for one in more for pair in pairs(one)}


def test_an_action_of_ones_own_choice_is_evaluated_elsewhere_and_then_again() -> None:
    opt = make("grid", Optimism(Uncertain()))
    asked = []
    for _ in range(4):
        s = opt.ask(action=X[2])
        asked.append(s.context_index)
        opt.tell(s, failed=True)
    assert sorted(asked[:3]) == [0, 1, 2]


def test_a_retracted_failure_may_be_asked_again() -> None:
    opt = make("grid", Optimism(Pessimistic()))
    first = opt.ask()
    opt.tell(first, failed=True)
    assert pairs(opt.ask()) != pairs(first)
    opt.retract(0)
    for s in opt.pending:
        opt.cancel(s)
    assert pairs(opt.ask()) == pairs(first)


def test_what_failed_by_an_action_told_by_value() -> None:
    """The action and the context of a log are off by rounding."""
    opt = make("box", Optimism(Pessimistic()))
    first = opt.ask()
    opt.tell({"x": first.action["x"] + 1e-12}, failed=True, context=first.context)
    opt.cancel(first)
    assert pairs(opt.ask()) != pairs(first)


def exact(action: Any, context: Any) -> float:
    """Return a deterministic outcome, best at a corner of a box."""
    x = action["x"] if isinstance(action, dict) else float(np.atleast_1d(action)[0])
    c = context["c"] if isinstance(context, dict) else float(np.atleast_1d(context)[0])
    return float(2.0 * x + 0.3 * c * x - 0.2 * c)


@pytest.mark.parametrize("policy", POLICIES)
def test_pending_evaluations_are_not_asked_again(policy: str) -> None:
    """Twelve pairs, all pending: each is asked once, in single asks, batches and several contexts."""
    opt = make("grid", POLICIES[policy])
    opt.tell(X[3], 5.0, context=C[1])
    asked = [pair for s in (opt.ask(), *opt.ask(3), *(opt.ask(n_contexts=2) for _ in range(2))) for pair in pairs(s)]
    asked += [pair for _ in range(4) for pair in pairs(opt.ask())]
    assert len(asked) == 12
    assert len(set(asked)) == 12
    opt.ask()  # where all is pending, something is asked for all the same


@pytest.mark.parametrize("kind", ["grid", "box"])
@pytest.mark.parametrize("several", [1, 3])
def test_a_deterministic_outcome_is_not_evaluated_twice(kind: str, several: int) -> None:
    opt = Optimizer(*SPACES[kind][:2], setting=Simulator(np.ones(3), 0.2), surrogate=GP(FIXED.kernel, 1e-4))
    seen: list[tuple[bytes, bytes]] = []
    for _ in range(12 // several):
        s = opt.ask(n_contexts=several)
        seen += pairs(s)
        opt.tell(s, [exact(s.action, c) for c in s.contexts] if several > 1 else exact(s.action, s.context))
    assert len(set(seen)) == 12
    if kind == "grid":  # everything is known: an evaluation is repeated rather than none asked for
        assert pairs(opt.ask())[0] in seen


def test_a_learned_model_does_not_repeat_a_deterministic_evaluation() -> None:
    """REVIEW W6: the best action, at a corner, was run six times in 24."""
    contexts = Samples({"c": np.linspace(0.0, 1.0, 3)}, support=0)
    opt = Optimizer(Box(x=(0.0, 1.0), n=Integer(0, 2)), contexts, setting=Simulator(radius=0.1))
    seen = []
    for _ in range(14):
        s = opt.ask()
        seen += pairs(s)
        opt.tell(s, exact(s.action, s.context) - 0.1 * s.action["n"])
    assert len(set(seen)) == 14


def test_production_goes_on_with_the_best_action() -> None:
    """Where nature picks contexts and no other action can be better, the best action is repeated."""
    opt = Optimizer(X, C, setting=General(), surrogate=GP(FIXED.kernel, 1e-4))
    for x in X:
        for c in C:
            opt.tell(x, exact(x, c), context=c)
    for _ in range(3):
        s = opt.ask(reference=np.ones(3) / 3, radius=0.1)
        assert s.action_index == 3
        opt.tell(s, exact(X[3], C[0]), context_index=0)


def test_noise_is_averaged_by_repeating() -> None:
    """A noisy evaluation may be repeated: one action, one context."""
    opt = Optimizer(X[:1], C[:1], setting=Simulator(np.ones(1), 0.0), surrogate=FIXED)
    for _ in range(3):
        s = opt.ask()
        opt.tell(s, 1.0)
    assert opt.n_told == 3


def test_a_small_error_that_is_known_is_averaged() -> None:
    """The paper's rule for a fixed model: at 0.5% of the amplitude, the clearly best action is evaluated again."""
    opt = Optimizer(
        X, C, setting=Simulator(np.ones(3), 0.2), surrogate=GP(FIXED.kernel, 5e-3), policy=Optimism(Uncertain())
    )
    for x in X:
        for c in C[:2] if x == X[0] else C:  # one evaluation is left, of a clearly worse action
            opt.tell(x, exact(x, c), context=c)
    for _ in range(4):
        s = opt.ask()
        assert s.action_index == 3
        opt.tell(s, exact(X[3], s.context))
