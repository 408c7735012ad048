"""Public names are said once: the stub is what the modules list, and files know every class of it."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.knowledge import from_json, to_json

TOP = Path(__file__).parents[1]

EXAMPLES: dict[str, Any] = {
    "PhiDivergence": lambda: drbo.PhiDivergence(square),
    "AtLeast": lambda: drbo.AtLeast(21.0, probability=0.95, unit="bar"),
    "AtMost": lambda: drbo.AtMost(68.0, surrogate=drbo.LearnedGP(), beta=2.5),
    "AnyOf": lambda: drbo.AnyOf([[1.0, 0.0], [0.0, 1.0]]),
    "Box": lambda: drbo.Box(x=(0.0, 1.0), n=drbo.Integer(1, 5)),
    "Categorical": lambda: drbo.Categorical("a", "b"),
    "Chance": lambda: drbo.Chance(0.9, above=1.0),
    "Constant": lambda: drbo.radius.Constant(0.1),
    "DataDriven": lambda: drbo.DataDriven(radius=0.2),
    "Decaying": lambda: drbo.radius.Decaying(0.5),
    "GP": lambda: drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.Matern(0.3)), noise=0.1),
    "Integer": lambda: drbo.Integer(1, 5),
    "Intersection": lambda: drbo.Intersection(drbo.Wasserstein(), drbo.Moments(1.0)),
    "LevelSet": lambda: drbo.LevelSet(drbo.Chance(0.9, above=1.0)),
    "Log": lambda: drbo.Log(0.1, 10.0),
    "Moments": lambda: drbo.Moments(1.0),
    "Neighbourhood": lambda: drbo.Neighbourhood(np.array([[0.0], [1.0]])),
    "Normal": lambda: drbo.Normal(0.0, 0.1),
    "Ordinal": lambda: drbo.Ordinal("low", "high"),
    "Perturbation": lambda: drbo.Perturbation(x=drbo.Normal(0.0, 0.1)),
    "Product": lambda: drbo.Product(drbo.RBF(0.2), drbo.ConstantKernel()),
    "Real": lambda: drbo.Real(0.0, 1.0),
    "Samples": lambda: drbo.Samples({"outdoor": [1.0, 2.0]}),
    "AtMostActive": lambda: drbo.AtMostActive("a", "b", count=1),
    "Known": lambda: drbo.Known(free, lipschitz=1.0),
    "LinearConstraint": lambda: drbo.LinearConstraint({"a": 1.0, "b": -1.0}, at_least=0.5),
    "Total": lambda: drbo.Total("a", "b", equals=1.0),
    "Satisficing": lambda: drbo.Satisficing(2.0),
    "Shares": lambda: drbo.Shares(old=(0.1, 0.6)),
    "Simulator": lambda: drbo.Simulator(radius=0.1),
    "TheoreticalBeta": lambda: drbo.TheoreticalBeta(2.0, 0.1),
    "Undecided": lambda: drbo.Undecided(drbo.Chance(0.9, above=1.0)),
    "Uniform": lambda: drbo.Uniform(-0.1, 0.1),
}
"""How a class is made that needs arguments."""
NO_CONFIGURATION = {"Measured", "NotReachedError", "Optimizer"}


def test_the_stub_is_what_the_modules_list() -> None:
    sys.path.insert(0, str(TOP / "scripts"))
    try:
        names = importlib.import_module("names")
    finally:
        sys.path.pop(0)
    stub = (TOP / "src" / "drbo" / "__init__.pyi").read_text()
    assert names.stub() == stub, "run `python scripts/names.py`: a module lists other names than the stub"


def test_few_names() -> None:
    assert len(drbo.__all__) <= 70
    assert sorted(set(drbo.__all__)) == sorted(drbo.__all__)
    assert set(drbo.__all__) <= set(dir(drbo))
    with pytest.raises(AttributeError, match="module 'drbo' has no attribute 'nothing'"):
        getattr(drbo, "nothing")  # noqa: B009


CLASSES = sorted(
    {
        one
        for name in (*drbo.__all__, *(f"radius.{rule}" for rule in drbo.radius.__all__))
        if isinstance(one := eval(f"drbo.{name}"), type) and not inspect.isabstract(one)
    }
    - {getattr(drbo, name) for name in NO_CONFIGURATION},
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_configuration_is_saved_and_loaded(cls: type) -> None:
    value = EXAMPLES.get(cls.__name__, cls)()
    saved = to_json(value)
    assert saved["kind"] == cls.__name__
    loaded = from_json(saved, [free, square])
    assert type(loaded) is cls
    assert to_json(loaded) == saved


def square(t: Any) -> Any:
    """Return the phi of the chi-square divergence."""
    return (t - 1.0) ** 2


def free(action: object, context: object) -> float:
    """Return the known part of an outcome."""
    del action, context
    return 0.0


def test_importing_drbo_imports_nothing_heavy() -> None:
    code = "import sys, drbo; print([m for m in ('numpy', 'scipy', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
