"""Distributionally robust Bayesian optimization: decisions that stay good when conditions shift.

The folders in order of data flow: spaces -> models -> ambiguity -> contexts -> rounds -> knowledge -> analysis ->
optimizer. Rules for the radius are in `drbo.radius`, regret and its bounds in `drbo.regret`, benchmark problems in
`drbo.problems`, the paper's experiments in `drbo.experiments`. Result records and names that only extenders need are in
the folders: `drbo.analysis.Recommendation`, `drbo.rounds.Choice`.

Names are imported on first use, so that `drbo --help` does not wait for the compiler. The stub beside this file lists
the module of each name; `scripts/names.py` collects the names from the `__all__` of the modules.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.3.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, flags=re.MULTILINE)}
"""The module that defines each public name; `drbo` for public modules."""
_FOLDERS = ("spaces", "models", "ambiguity", "contexts", "rounds", "knowledge", "analysis", "optimizer")

__all__ = [name for name in _HOMES if name not in _FOLDERS]  # names that the stub lists


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'drbo' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"drbo.{name}") if home == "drbo" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
