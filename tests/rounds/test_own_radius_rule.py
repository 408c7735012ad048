"""A rule for the radius of a user's own, in one file: asked, told, saved and loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits

pytestmark = pytest.mark.usefixtures("still")


@dataclass(frozen=True)
class Wary(drbo.radius.RadiusRule):
    """A radius of scale / sqrt(1 + t) after t contexts."""

    scale: float

    def radius(self, seen: np.ndarray, ambiguity: Any, n_contexts: int, weights: np.ndarray | None = None) -> float:
        del ambiguity, n_contexts, weights
        return self.scale / float(np.sqrt(1.0 + len(seen)))


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    opt = drbo.Optimizer(
        np.linspace(0.0, 1.0, 7),
        np.linspace(0.0, 1.0, 5),
        ambiguity=drbo.TotalVariation(),
        setting=drbo.DataDriven(radius=Wary(0.5)),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), noise=0.1),
    )
    for t in range(6):
        s = opt.ask()
        assert s.radius == pytest.approx(0.5 / np.sqrt(1.0 + t)) or t == 0
        opt.tell(s, float(np.sin(3.0 * s.action[0]) * t), context_index=t % 5)
    opt.save(tmp_path / "state.drbo")
    with pytest.raises(ValueError, match=r"needs the class .*Wary.*classes=\[Wary\]"):
        drbo.Optimizer.load(tmp_path / "state.drbo")
    loaded = drbo.Optimizer.load(tmp_path / "state.drbo", classes=[Wary])
    assert bits(loaded.recommend()) == bits(opt.recommend())
    assert bits(loaded.predict(0.5, 0.25)) == bits(opt.predict(0.5, 0.25))
    assert bits(loaded.ask()) == bits(opt.ask())
