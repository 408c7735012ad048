"""Sets in the user's words in an optimizer: settings, ranges, files, and what is printed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import MMD, AnyOf, DataDriven, General, Intersection, Moments, Optimizer, Shares, Simulator, Wasserstein

BOX = drbo.Box(outdoor=(-10.0, 30.0), age=drbo.Categorical("young", "old"))
ROWS: dict[str, list[Any]] = {
    "outdoor": [3.0, 8.0, 12.0, 20.0, 5.0, 9.0],
    "age": ["young", "old", "young", "old", "young", "young"],
}
SAMPLES = drbo.Samples(ROWS, within=BOX, support=8)
COLD = drbo.Samples({"outdoor": [-5.0, 0.0], "age": ["old", "old"]}, within=BOX)
SETS: dict[str, tuple[Any, str]] = {
    "Moments": (Moments(outdoor=2.0), "whose mean outdoor is within 2 of the reference's"),
    "Shares": (Shares(old=(0.2, 0.5)), "whose share of old is from 20.0% to 50.0%, inside the groups as the reference"),
    "AnyOf": (AnyOf([COLD]), "that is the reference itself, or so with the scenario in place of the reference"),
    "Intersection": (
        Intersection(MMD(), Moments(outdoor=2.0)),
        "within a maximum mean discrepancy (MMD) of 0.2 of the reference and whose mean outdoor is within 2 of the",
    ),
    "Wasserstein": (Wasserstein(scale={"outdoor": 3.0, "age": 1.0}), "in steps of 3 (outdoor) and 1 (age)"),
}
SURROGATE = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.5)), 0.05)


def made(name: str, setting: str) -> Optimizer:
    ambiguity = SETS[name][0]
    radius = 0.2 if ambiguity.own_radius is None else None
    settings = {"simulator": Simulator(radius=radius), "data-driven": DataDriven(radius=radius), "general": General()}
    return Optimizer([0.0, 0.5, 1.0], SAMPLES, ambiguity=ambiguity, setting=settings[setting], surrogate=SURROGATE)


def run(opt: Optimizer, rounds: int) -> list[tuple[Any, float]]:
    asked = []
    for i in range(rounds):
        radius = 0.2 if isinstance(opt.setting, General) and opt.ambiguity.own_radius is None else None
        s = opt.ask() if radius is None else opt.ask(radius=radius)
        seen = {name: column[i] for name, column in ROWS.items()}
        opt.tell(s, float(s.action[0]) - 0.1 * i, context=None if s.context else seen)
        asked.append((float(s.action[0]), s.score))
    return asked


@pytest.mark.parametrize("setting", ["simulator", "data-driven", "general"])
@pytest.mark.parametrize("name", SETS)
def test_they_run_print_and_go_on_from_a_file(name: str, setting: str, tmp_path: Path) -> None:
    opt = made(name, setting)
    run(opt, 2)
    opt.save(tmp_path / "state")
    loaded = Optimizer.load(tmp_path / "state")
    assert run(opt, 1) == run(loaded, 1)
    r = opt.recommend()
    assert str(r) == str(loaded.recommend())
    assert SETS[name][1] in " ".join(str(r).split())
    assert r.gap >= 0.0


def test_a_certificate_holds_on_the_whole_range() -> None:
    """Of all distributions on a fine grid that keep the mean, none is worse than the guarantee."""
    opt = made("Moments", "simulator")
    run(opt, 2)
    r = opt.recommend()
    outdoor = np.array([row["outdoor"] for row in r.contexts])
    mean = float(r.reference @ outdoor)
    assert abs(float(r.weights @ outdoor) - mean) <= 2.0 + 1e-9
    grid = [{"outdoor": float(x), "age": age} for x in np.linspace(-10.0, 30.0, 41) for age in ("young", "old")]
    lower = np.array([opt.predict(r.action, context).lower for context in grid])
    x = np.array([context["outdoor"] for context in grid])
    for i in range(0, len(grid), 3):  # every pair whose mixture has the least or the largest mean that is allowed
        for j in range(0, len(grid), 3):
            for target in (mean - 2.0, mean, mean + 2.0):
                if x[i] <= target <= x[j] and x[i] < x[j]:
                    share = (target - x[i]) / (x[j] - x[i])
                    assert (1.0 - share) * lower[i] + share * lower[j] >= r.value - 1e-9


def test_mistakes_show_when_the_optimizer_is_made() -> None:
    for ambiguity, message in (
        (Moments(humidity=2.0), "'humidity', which is none of the contexts: they are outdoor, age"),
        (Shares(age={"ancient": 0.5}), "group 'ancient'"),
        (Wasserstein(), "Wasserstein needs a scale for the columns outdoor, age"),
    ):
        with pytest.raises(ValueError, match=message):
            Optimizer([0.0, 1.0], SAMPLES, ambiguity=ambiguity, setting=Simulator(radius=0.1), surrogate=SURROGATE)
    with pytest.raises(TypeError, match="radius must be given for MMD"):
        Optimizer([0.0, 1.0], SAMPLES, setting=Simulator(), surrogate=SURROGATE)
