"""A new room in one file: sets, kernels, settings and policies of a user's own, run, saved and loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from bits import bits
from drbo import GP, Optimizer, Product, Simulator

pytestmark = pytest.mark.usefixtures("still")


class Contamination(drbo.AmbiguitySet):
    """A share `radius` of the mass goes anywhere: (1 - radius) p + radius q for any q."""

    def arguments(self) -> dict[str, Any]:
        return {}

    def _distance(self, p: np.ndarray, q: np.ndarray) -> float:
        return float(1.0 - np.min(q[p > 0.0] / p[p > 0.0]))

    def _solve(self, values: np.ndarray, reference: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        share = min(radius, 1.0)
        weights = (1.0 - share) * reference + share * np.eye(len(reference))[np.argmin(values, axis=1)]
        return weights, (1.0 - share) * values @ reference + share * values.min(axis=1)


@dataclass(frozen=True)
class RationalQuadratic(drbo.Kernel):
    """The kernel variance / (1 + r^2)."""

    lengthscale: float = 1.0
    variance: float = 1.0

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(self.variance / (1.0 + self._r2(a, b)))

    def gradient(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        slope = -2.0 * self.variance / (1.0 + self._r2(a, b)) ** 2 / self.lengthscale**2
        return np.asarray(slope[:, :, None] * (a[:, None] - b))

    @property
    def curvature(self) -> np.ndarray:
        return np.array([2.0 * self.variance / self.lengthscale**2])

    def _r2(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(((a[:, None] - b) ** 2).sum(axis=2) / self.lengthscale**2)


@dataclass(frozen=True)
class Greedy(drbo.Policy):
    """The action whose worst-case mean is largest, in the context at a fixed place."""

    context: int | None = None

    def choose(self, round: drbo.rounds.Round, beliefs: Any) -> drbo.rounds.Choice:
        mean = drbo.models.Bound(beliefs.expected(round.ball), 0.0, drbo.models.UPPER)
        found = round.search.best(round.ball, mean, round.near, round.under_way)
        context = None if self.context is None else round.ball.reference.atom(self.context)
        return drbo.rounds.Choice(found.action, context, found.score, round.ball)


class Seasonal(drbo.Setting):
    """The reference goes by the number of contexts seen, and the learner picks contexts."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def arguments(self) -> dict[str, Any]:
        return {"radius": self.radius}

    @property
    def policy(self) -> drbo.Policy:
        return drbo.Optimism(drbo.Informative())

    def reference_of(self, given: Any, contexts: Any, seen: Sequence[Any]) -> Any:
        weights = np.ones(len(robos.C)) if len(seen) % 2 else robos.REFERENCE
        return contexts.given(weights if given is None else given)

    def radius_of(self, given: Any, reference: Any, ambiguity: drbo.AmbiguitySet) -> float:
        del reference, ambiguity
        return self.radius if given is None else float(given)


class KL(drbo.KL):
    """A set of the user's own that has the name of one of drbo's: twice as wary."""

    def arguments(self) -> dict[str, Any]:
        return {}

    def _solve(self, values: np.ndarray, reference: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        return super()._solve(values, reference, 2.0 * radius)


SIMULATOR = Simulator(robos.REFERENCE, 0.2, pick="uncertain")
ROOMS: dict[str, tuple[type, dict[str, Any]]] = {
    "set": (Contamination, {"ambiguity": Contamination()}),
    "kernel": (
        RationalQuadratic,
        {"surrogate": GP(Product(RationalQuadratic(0.5), RationalQuadratic(5.0)), 0.05)},
    ),
    "kernel of an MMD": (RationalQuadratic, {"ambiguity": drbo.MMD(kernel=RationalQuadratic(5.0))}),
    "setting": (Seasonal, {"setting": Seasonal(0.2)}),
    "policy": (Greedy, {"policy": Greedy(3), "setting": Simulator(robos.REFERENCE, 0.2)}),
    "set called KL": (KL, {"ambiguity": KL()}),
}
every_room = pytest.mark.parametrize("room", ROOMS)


def make(room: str) -> Optimizer:
    return robos.make(**{"setting": SIMULATOR, **ROOMS[room][1]})


@every_room
def test_a_new_room_runs_is_saved_and_loaded(room: str, tmp_path: Path) -> None:
    opt, path = make(room), tmp_path / "state.json"
    robos.run(opt, 12)
    held = opt.ask()
    assert held.context is not None
    opt.save(path)
    cls = ROOMS[room][0]
    with pytest.raises((TypeError, ValueError), match=rf"needs the class .*{cls.__name__}.*classes=\[") as refused:
        Optimizer.load(path)
    assert "\n" not in str(refused.value)
    assert "damaged" not in str(refused.value)
    loaded = Optimizer.load(path, classes=[cls])
    assert bits(loaded.history) == bits(opt.history)
    for some in (opt, loaded):
        some.tell(held, 0.3)
    assert bits(robos.run(opt, 3)) == bits(robos.run(loaded, 3))
    assert bits(opt.recommend()) == bits(loaded.recommend())
    assert bits(opt.recommend_iterate()) == bits(loaded.recommend_iterate())
    assert len({s.action_index for s in robos.run(opt, 10)}) >= 1


def test_a_setting_of_ones_own_picks_contexts() -> None:
    """S7: 0.1 gave no context, and `tell` died with a bare AssertionError."""
    opt = robos.make(Seasonal(0.2))
    references = []
    for number in range(4):
        s = opt.ask()
        assert s.context is not None
        assert s.context_index is not None
        references.append(s.reference)
        opt.tell(s, 0.1 * number)
    for reference in references:  # contexts that the learner picked are none that nature has shown
        np.testing.assert_array_equal(reference, robos.REFERENCE)
    opt.tell(robos.X[0], 0.5, context_index=3)
    np.testing.assert_allclose(opt.ask().reference, 0.02)
    given = opt.ask(reference=robos.TRUTH, radius=0.7)
    np.testing.assert_array_equal(given.reference, robos.TRUTH)
    assert given.radius == 0.7


def test_a_set_of_ones_own_is_not_loaded_as_drbos(tmp_path: Path) -> None:
    """S8: 0.1 loaded the user's KL as its own one."""
    own, usual = make("set called KL"), robos.make(SIMULATOR, ambiguity=drbo.KL())
    for opt in (own, usual):
        robos.run(opt, 5)
    assert own.recommend().value < usual.recommend().value
    own.save(tmp_path / "state.json")
    loaded = Optimizer.load(tmp_path / "state.json", classes=[KL])
    assert type(loaded.configuration.placed) is KL
    assert loaded.recommend().value == own.recommend().value
    with pytest.raises((TypeError, ValueError), match="needs the class"):
        Optimizer.load(tmp_path / "state.json", classes=[drbo.KL, Contamination])


def test_the_worst_case_of_a_set_of_ones_own() -> None:
    opt = make("set")
    robos.run(opt, 20)
    r = opt.recommend()
    lcb = (robos.posterior(opt).mean - 2.0 * robos.posterior(opt).std)[r.action_index]
    assert r.value == pytest.approx(0.8 * float(lcb @ robos.REFERENCE) + 0.2 * float(lcb.min()))


def test_a_kernel_of_ones_own_on_a_range() -> None:
    """Its slope and curvature are used where contexts have a range."""
    kernel = Product(RationalQuadratic(0.7), RationalQuadratic(0.7))
    opt = Optimizer(
        np.linspace(0.0, 1.0, 9),
        drbo.Box(wind=(0.0, 25.0)),
        setting=Simulator(radius=0.2, pick="uncertain"),
        surrogate=GP(kernel, 0.1),
    )
    for number in range(3):
        opt.tell(opt.ask(), float(number))
    assert opt.recommend().gap >= 0.0


def test_what_has_no_arguments_cannot_be_saved(tmp_path: Path) -> None:
    class Bare(Contamination):
        arguments = property()

    opt = robos.make(SIMULATOR, ambiguity=Bare())
    with pytest.raises(TypeError, match=r"save cannot write .* frozen dataclass, or give it a method arguments"):
        opt.save(tmp_path / "state.json")
    assert not (tmp_path / "state.json").exists()
