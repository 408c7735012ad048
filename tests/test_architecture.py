"""Data flows one way: a folder imports only from folders above it, and inside a folder there are no cycles."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import drbo

ROOT = Path(drbo.__file__).parent
TOP = Path(__file__).parents[1]
ORDER = (
    ("_messages", "_fast_record"),
    ("validation", "_compiled", "_threads", "_files"),
    ("kernels",),
    ("spaces",),
    ("models",),
    ("ambiguity",),
    ("contexts",),
    ("rounds",),
    ("knowledge",),
    ("analysis",),
    ("optimizer",),
    ("radius", "regret"),
    ("__init__",),
    ("names",),
    ("problems",),
    ("experiments", "report"),
    ("integrations",),
    ("console",),
    ("cli",),
    ("__main__",),
)
"""The folders, and the modules at the top level, in the order in which data flows."""
PLACES = {name: i for i, level in enumerate(ORDER) for name in level}
DOWNWARDS = {"optimizer": {"report"}, "report": {"optimizer"}}
"""`Optimizer.report` and `Optimizer.plot` import the report inside of the method: the one exception to the order."""
PUBLIC_ONLY = ("names", "problems", "experiments", "report", "integrations", "console", "cli", "__main__")
EXTRAS = (
    "matplotlib", "pandas", "rich", "typer", "joblib", "distributed", "plotly", "cvxpy", "clarabel", "torch", "sklearn",
    "optuna",
)  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return "drbo." + ".".join(parts)


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}
SOURCES = [path for path in MODULES.values() if path != ROOT / "__init__.py"]


def room(module: str) -> str:
    """Return the folder of a module such as `drbo.spaces.box`, or its name if it is in none."""
    return [*module.split("."), "__init__"][1]


def imports(source: str) -> set[str]:
    """Return the modules of drbo that a source imports, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "drbo":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "drbo"}
    return found


def violations(module: str, source: str) -> list[str]:
    own = room(module)
    return [
        f"{module} imports {other}"
        for other in sorted(imports(source))
        if room(other) != own and room(other) not in DOWNWARDS.get(own, ()) and PLACES[room(other)] >= PLACES[own]
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: module_of(path))
def test_imports_follow_the_order_of_the_folders(path: Path) -> None:
    assert violations(module_of(path), path.read_text()) == []


def cycle(sources: dict[str, str]) -> list[str]:
    """Return modules that import one another in a ring; none if there is no ring.

    A package that imports its own modules, as `drbo.spaces` does, is not part of any.
    """
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    graph = {name: imports(source) & set(sources) - packages for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("folder", sorted({room(module) for module in MODULES}))
def test_no_cycles_inside_a_folder(folder: str) -> None:
    assert cycle({name: path.read_text() for name, path in MODULES.items() if room(name) == folder}) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("drbo.spaces.box", "from drbo.optimizer import Optimizer"),
        ("drbo.rounds.ball", "import drbo.knowledge.state"),
        ("drbo.models.gp", "def f():\n    from drbo.ambiguity import MMD"),
        ("drbo.ambiguity.mmd", "from drbo.analysis.profile import RadiusProfile"),
        ("drbo.spaces.box", "from drbo import Box"),
    ],
)
def test_the_walk_can_fail(module: str, line: str) -> None:
    assert violations(module, line) != []


def test_a_cycle_is_found() -> None:
    ring = {
        "drbo.spaces.box": "from drbo.spaces.samples import Samples",
        "drbo.spaces.samples": "from drbo.spaces import box",
    }
    assert set(cycle(ring)) == set(ring)


def test_module_names_are_told_apart_at_a_glance() -> None:
    """No two modules have names that differ by a letter or a plural, in whatever folder."""
    names = sorted(path.stem.strip("_") for path in SOURCES if path.stem not in ("__init__", "__main__"))
    alike = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if alike_names(a, b)]
    assert alike == []


ALIKE = {("Bound", "Round")}
"""Classes with names that differ by a letter, and are kept: words that every policy uses."""


def test_class_names_are_told_apart_at_a_glance() -> None:
    """No two classes have the same name, or names that differ by a letter."""
    found = sorted(
        node.name.strip("_")
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {(a, b) for i, a in enumerate(found) for b in found[i + 1 :] if alike_names(a, b)} == ALIKE


def undocumented(sources: list[str]) -> list[str]:
    """Return the public methods without a docstring that override no documented method of a class in the sources."""
    classes = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    bases = {one.name: [ast.unparse(base).split("[")[0].split(".")[-1] for base in one.bases] for one in classes}
    methods = {one.name: [node for node in one.body if isinstance(node, ast.FunctionDef)] for one in classes}

    def said(name: str, method: str) -> bool:
        own = [node for node in methods.get(name, ()) if node.name == method and ast.get_docstring(node)]
        return bool(own) or any(said(base, method) for base in bases.get(name, ()))

    return [
        f"{name}.{node.name}"
        for name, several in methods.items()
        for node in several
        if not (name.startswith("_") or node.name.startswith("_") or said(name, node.name) or is_a_stub(node))
    ]


def is_a_stub(method: ast.FunctionDef) -> bool:
    """Return whether a method of a protocol is written as `def name(self) -> float: ...`."""
    return ast.unparse(method.body[0]) == "..."


def test_every_public_method_says_what_it_does() -> None:
    """An override needs no docstring of its own: it has that of the method which it overrides."""
    assert undocumented([path.read_text() for path in SOURCES]) == []


def test_a_method_without_a_docstring_is_found() -> None:
    base = "class A:\n    def f(self):\n        'Return 1.'\n"
    assert undocumented([base, "class B(A):\n    def f(self):\n        return 2\n"]) == []
    assert undocumented([base, "class B(A):\n    def g(self):\n        return 2\n"]) == ["B.g"]


def alike_names(a: str, b: str) -> bool:
    """Return whether two names are the same, or one letter turns one into the other."""
    short, long = sorted((a, b), key=len)
    if len(long) - len(short) > 1:
        return False
    if len(long) == len(short):
        return sum(x != y for x, y in zip(a, b, strict=True)) <= 1
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def test_names_that_are_alike_are_found() -> None:
    assert alike_names("ball", "balls")
    assert alike_names("chance", "change")
    assert alike_names("box", "box")
    assert not alike_names("box", "boxes")


def private_reaches(source: str) -> list[str]:
    """Return the private names of other modules that a source reaches for, by import or by attribute of a module."""
    found = []
    tree = ast.parse(source)
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drbo":
            modules |= {alias.asname or alias.name for alias in node.names}
            found += [
                f"{node.module}.{alias.name}"
                for alias in node.names
                if alias.name.startswith("_") and f"{node.module}.{alias.name}" not in MODULES
            ]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and re.fullmatch(r"_[a-z]\w*", node.attr)
        ):
            found.append(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: module_of(path))
def test_no_private_name_is_reached_across_modules(path: Path) -> None:
    assert private_reaches(path.read_text()) == []


def test_a_private_reach_is_noticed() -> None:
    assert private_reaches("from drbo.rounds.grid_search import _tighten") == ["drbo.rounds.grid_search._tighten"]
    assert private_reaches("from drbo.rounds import grid\ngrid._tighten()") == ["grid._tighten"]


OUTSIDE = [
    *(path for path in SOURCES if room(module_of(path)) in PUBLIC_ONLY),
    *(
        path
        for folder in ("scripts", "benchmarks", "examples", "integrations")
        for path in sorted((TOP / folder).rglob("*.py"))
    ),
]
"""What uses drbo from outside: rooms that nothing else imports, and the programs beside the package."""
TOOLS = {"drbo._messages", "drbo._files"}
"""Private modules that rooms of the package share: text for terminals, what to install, and how files are written."""
MEASURED = {"adversaries.py": {"drbo.ambiguity._mmd_atoms"}}
"""A benchmark that measures one step inside of a solver."""


def inner_reaches(path: Path, source: str) -> list[str]:
    """Return what a source imports from inside of drbo: private names, and public ones past `drbo` itself."""
    inside = path.is_relative_to(ROOT)
    own = ".".join(module_of(path).split(".")[:2]) if inside else "not a room of drbo"
    allowed = TOOLS if inside else MEASURED.get(path.name, set())
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "drbo":
            continue
        module = str(node.module)
        if module in allowed or module == own or module.startswith(f"{own}."):
            continue
        for alias in node.names:
            private = any(part.startswith("_") for part in (*module.split("."), alias.name))
            past = alias.name in drbo.__all__ and module.count(".") > 0
            found += [f"{module}.{alias.name}"] if private or past else []
    return found


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.stem)
def test_what_is_outside_uses_the_public_names(path: Path) -> None:
    assert inner_reaches(path, path.read_text()) == []


def test_a_reach_into_drbo_is_noticed() -> None:
    script, inside = TOP / "scripts" / "any.py", ROOT / "experiments" / "any.py"
    assert inner_reaches(script, "from drbo.problems._benchmarks import branin") == ["drbo.problems._benchmarks.branin"]
    assert inner_reaches(script, "from drbo.problems import _benchmarks") == ["drbo.problems._benchmarks"]
    assert inner_reaches(script, "from drbo.models.gp import GP") == ["drbo.models.gp.GP"]
    assert inner_reaches(script, "from drbo._files import locked") == ["drbo._files.locked"]
    assert inner_reaches(inside, "from drbo._files import locked\nfrom drbo.experiments.records import run") == []
    assert inner_reaches(inside, "from drbo._threads import one_thread") == ["drbo._threads.one_thread"]


def test_nothing_heavy_is_imported_with_the_core() -> None:
    """Importing every room from spaces to analysis brings none of the packages that belong to extras."""
    apart = ("problems", "experiments", "integrations", "console", "cli", "__main__")
    rooms = [name for name in MODULES if room(name) not in apart]
    code = f"import sys, importlib\nfor m in {rooms!r}: importlib.import_module(m)\n"
    code += f"print([m for m in {EXTRAS!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_whole_public_api_is_explicit() -> None:
    assert sorted(set(drbo.__all__)) == sorted(drbo.__all__)
    assert all(hasattr(drbo, name) for name in drbo.__all__)
