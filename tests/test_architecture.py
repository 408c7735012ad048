"""Data flows one way: a module imports only from modules above it in the map of the design."""

import ast
import subprocess
import sys
from pathlib import Path

import drbo

ROOT = Path(drbo.__file__).parent
ORDER = [
    "names", "validation", "_compiled", "kernels", "spaces", "models", "ambiguity", "rounds", "radius", "optimizer",
    "analysis", "regret", "problems", "experiments", "cli", "__main__", "__init__",
]  # fmt: skip


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "drbo":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("drbo.")}
    return rooms


def violations(path: Path) -> list[str]:
    own = room(path)
    known = {r for r in imported_rooms(path) if r in ORDER}
    return [f"{own} imports {other}" for other in sorted(known) if ORDER.index(other) > ORDER.index(own)]


def test_imports_follow_the_map() -> None:
    found = [v for path in ROOT.rglob("*.py") for v in violations(path)]
    assert found == ["spaces imports ambiguity"]  # samples make atoms; the next change takes that apart


def test_every_room_is_on_the_map() -> None:
    assert {room(path) for path in ROOT.rglob("*.py")} <= set(ORDER)


def test_the_walk_can_fail(tmp_path: Path) -> None:
    bad = ROOT / "spaces" / "box.py"
    code = tmp_path / "box.py"
    code.write_text(bad.read_text() + "\nfrom drbo.optimizer import Optimizer\nimport drbo.rounds.grid\n")
    assert imported_rooms(code) >= {"optimizer", "rounds"}


def test_nothing_heavy_is_imported_with_the_package() -> None:
    heavy = ("cvxpy", "clarabel", "matplotlib", "torch", "jax", "pandas", "joblib", "rich", "typer", "sklearn")
    code = f"import sys, drbo; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_whole_public_api_is_explicit() -> None:
    assert sorted(set(drbo.__all__)) == sorted(drbo.__all__)
    assert all(hasattr(drbo, name) for name in drbo.__all__)
