"""Print the lowest versions that pyproject.toml allows, of all that drbo and its extras need, as pip constraints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent


def lowest(requirements: Iterable[str]) -> Iterator[str]:
    """Yield `name==version` for each requirement, at the largest of its lower bounds; drbo's own extras are no package.

    A requirement without a lower bound raises: nobody can know with which versions it was tried.
    """
    found: dict[str, Version] = {}
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name == "drbo":
            continue
        bounds = [Version(s.version) for s in requirement.specifier if s.operator in (">=", "==", "~=")]
        if not bounds:
            raise ValueError(f"pyproject.toml: {text!r} has no lower bound, such as {requirement.name}>=1.0")
        name = requirement.name
        found[name] = max([*bounds, *([found[name]] if name in found else [])])
    yield from (f"{name}=={version}" for name, version in sorted(found.items()))


def requirements(pyproject: Path) -> list[str]:
    """Return what the package and all of its extras ask for."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]


if __name__ == "__main__":
    print("\n".join(lowest(requirements(ROOT / "pyproject.toml"))))
