"""Write src/drbo/__init__.pyi: the public names of drbo, collected from the `__all__` of the modules that define them.

A module of a folder between `spaces` and `optimizer` lists in `__all__` what users type as `drbo.Name`. `drbo.radius`
imports all names of some modules; these are not names of `drbo` itself.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "drbo"
FOLDERS = ("kernels.py", "spaces", "models", "ambiguity", "contexts", "rounds", "knowledge", "analysis", "optimizer")
NAMESPACES = ("experiments", "problems", "radius", "regret")
FIRST = "# Written by scripts/names.py from the `__all__` of every module: run it after a change.\n# ruff: noqa: I001\n"


def _module(path: Path) -> str:
    return ".".join(("drbo", *path.relative_to(ROOT).with_suffix("").parts))


def _listed(path: Path) -> list[str]:
    """Return the names in the `__all__` of a module; none if it has no such list."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def _in_namespaces() -> set[str]:
    """Return the modules whose names `drbo.radius` holds."""
    files = [ROOT / f"{name}.py" for name in NAMESPACES if (ROOT / f"{name}.py").exists()]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    return {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"}


def stub() -> str:
    """Return the text of the stub."""
    paths = [ROOT / name for name in FOLDERS]
    files = [path for one in paths for path in ([one] if one.is_file() else sorted(one.glob("*.py")))]
    apart = _in_namespaces()
    lines = [
        f"from {_module(path)} import {name} as {name}"
        for path in files
        if path.name != "__init__.py" and _module(path) not in apart
        for name in _listed(path)
    ]
    modules = [f"from drbo import {name} as {name}" for name in sorted((*FOLDERS[1:], *NAMESPACES))]
    return "\n".join([FIRST, *modules, *lines, "", "__version__: str", "__all__: list[str]", ""])


if __name__ == "__main__":
    (ROOT / "__init__.pyi").write_text(stub())
