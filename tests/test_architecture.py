"""Data flows one way: a module imports only from modules above it in the map, inside folders too."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import drbo

ROOT = Path(drbo.__file__).parent
TOP = Path(__file__).parents[1]
MAP = """
    _text validation _extras _compiled _threads _files kernels
    spaces.rows spaces.columns spaces.space spaces.parameters spaces.choices spaces.finite spaces.labels spaces.kinds
    spaces.box
    spaces.shift spaces.samples spaces.perturbation spaces
    models.units models.outcomes models.observation models.curve models.estimate models.features models.path
    models._cholesky models.gp models.inverse models.factor models.regression models.grid models.likelihood
    models.kronecker models.kronecker_posterior models.log_posterior models.learned models.posterior
    models.perturbed models.inputs models.bounds models
    ambiguity.contract ambiguity.peak ambiguity.pivoted ambiguity.scaling ambiguity.on_support ambiguity._affine_qr
    ambiguity._block_pivoting ambiguity._mmd_pricing ambiguity._mmd_solver ambiguity._gram_start
    ambiguity._many_features ambiguity._transport_solver ambiguity._simplex ambiguity.linear
    ambiguity.mmd ambiguity.total_variation ambiguity.kl ambiguity.chi_square ambiguity.cvar ambiguity.wasserstein
    ambiguity.expectation ambiguity.neighbourhood ambiguity.moments ambiguity.shares ambiguity.scenarios
    ambiguity.any_of ambiguity.intersection ambiguity
    ambiguity.compression ambiguity.reference ambiguity.contexts ambiguity.finite_contexts ambiguity.sampled_contexts
    rounds.ball rounds.prices rounds.range rounds.represented rounds.balls rounds.search rounds.grid rounds.box
    rounds.beliefs rounds.repeats
    rounds.safe rounds.contexts rounds.policies rounds.thompson rounds.satisficing rounds.chance
    rounds.joint_optimism rounds.value_of_information
    rounds.blocks
    rounds.radius rounds.learned_radius rounds.settings rounds
    optimizer.claims optimizer.history optimizer.encoding optimizer.explanation optimizer.markup
    optimizer.probabilities optimizer.suggestion optimizer.tables optimizer.state optimizer.belief
    optimizer.configuration optimizer.production optimizer.log optimizer.reports optimizer.knowledge
    optimizer.propose optimizer.incumbent optimizer.targets optimizer.chances
    optimizer.explain optimizer.checks optimizer.view optimizer.answers optimizer.analyses
    optimizer.records optimizer.storage optimizer.stored optimizer.optimizer optimizer.progress
    optimizer.parallel optimizer
    analysis.pictures analysis.radius_explanation analysis.explain_radius analysis.radius_profile
    analysis.backtest analysis.sensitivity analysis.watch analysis.regret analysis.course analysis.plots analysis
    radius regret __init__
    names problems experiments report terminal
    integrations integrations.botorch integrations.optuna.attributes integrations.optuna.parameters
    integrations.optuna.trials integrations.optuna.waiting integrations.optuna.sampler integrations.optuna.studies
    integrations.optuna.figures integrations.optuna
    printing reading cli __main__
""".split()  # noqa: SIM905  # a list of names, one line per step of the story
"""Every module of drbo, in the order in which data flows; `problems`, `experiments` and `report` are one room each."""
HANDED_ON = {
    "optimizer.analyses": {
        "analysis.backtest",
        "analysis.explain_radius",
        "analysis.radius_explanation",
        "analysis.plots",
        "analysis.radius_profile",
        "analysis.sensitivity",
        "analysis.watch",
        "report",
    }
}
"""What methods of one line hand the optimizer to, with the import inside: the one exception to the order."""
WHOLE_ROOMS = ("problems", "experiments", "report")
EXTRAS = (
    "matplotlib", "pandas", "rich", "typer", "joblib", "distributed", "plotly", "cvxpy", "clarabel", "torch", "sklearn",
    "optuna",
)  # fmt: skip


def place(module: str) -> str | None:
    """Return the entry of the map that a module such as `drbo.spaces.box` belongs to; None if it is no module."""
    name = module.removeprefix("drbo").removeprefix(".") or "__init__"
    room = name.split(".")[0]
    if room in WHOLE_ROOMS:
        return name if name in MAP else room
    return name if name in MAP else None


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return "drbo." + ".".join(parts)


def imports(source: str) -> set[str]:
    """Return the modules of drbo that a source imports, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "drbo":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if place(inner) in MAP and place(inner) != place(node.module) else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "drbo"}
    return found


def violations(module: str, source: str) -> list[str]:
    own = place(module)
    assert own is not None, f"{module} is not on the map"
    wrong = []
    for other in sorted(imports(source)):
        there = place(other)
        if there in HANDED_ON.get(own, ()):
            continue
        if there is None or (MAP.index(there) >= MAP.index(own) and there != own):
            wrong.append(f"{module} imports {other}")
    return wrong


SOURCES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: module_of(path))
def test_imports_follow_the_map(path: Path) -> None:
    assert violations(module_of(path), path.read_text()) == []


def test_the_map_names_nothing_that_is_not_there() -> None:
    there = {place(module_of(path)) for path in ROOT.rglob("*.py")}
    assert set(MAP) <= there


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("drbo.spaces.box", "from drbo.optimizer import Optimizer"),
        ("drbo.spaces.box", "from drbo.spaces import samples"),
        ("drbo.rounds.ball", "import drbo.rounds.grid"),
        ("drbo.models.gp", "def f():\n    from drbo.models.bounds import Bound"),
        ("drbo.ambiguity.mmd", "from drbo.analysis.backtest import backtest"),
    ],
)
def test_the_walk_can_fail(module: str, line: str) -> None:
    assert violations(module, line) != []


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
                if alias.name.startswith("_") and place(f"{node.module}.{alias.name}") is None
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
    assert private_reaches("from drbo.rounds.grid import _tighten") == ["drbo.rounds.grid._tighten"]
    assert private_reaches("from drbo.rounds import grid\ngrid._tighten()") == ["grid._tighten"]


OUTSIDE = [
    *(
        path
        for path in SOURCES
        if place(module_of(path)) in ("names", *WHOLE_ROOMS, "terminal", "printing", "reading", "cli")
    ),
    *sorted((ROOT / "integrations").rglob("*.py")),
    *(
        path
        for room in ("scripts", "benchmarks", "examples", "integrations")
        for path in sorted((TOP / room).rglob("*.py"))
    ),
]
"""What uses drbo from outside: rooms that nothing else imports, and the programs beside the package."""
TOOLS = {"drbo._text", "drbo._extras", "drbo._files"}
"""Private modules that rooms of the package share: text for terminals, what to install, and how files are written."""
MEASURED = {"adversaries.py": {"drbo.ambiguity._mmd_pricing"}}
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
    script, room = TOP / "scripts" / "any.py", ROOT / "experiments" / "any.py"
    assert inner_reaches(script, "from drbo.problems._branin import branin") == ["drbo.problems._branin.branin"]
    assert inner_reaches(script, "from drbo.problems import _branin") == ["drbo.problems._branin"]
    assert inner_reaches(script, "from drbo.models.gp import GP") == ["drbo.models.gp.GP"]
    assert inner_reaches(script, "from drbo._files import locked") == ["drbo._files.locked"]
    assert inner_reaches(room, "from drbo._files import locked\nfrom drbo.experiments._runs import run") == []
    assert inner_reaches(room, "from drbo._threads import one_thread") == ["drbo._threads.one_thread"]


def test_nothing_heavy_is_imported_with_the_core() -> None:
    """Importing every room from spaces to analysis brings none of the packages that belong to extras."""
    rooms = [
        module_of(path)
        for path in SOURCES
        if place(module_of(path)) not in ("problems", "experiments", "reading", "cli")
    ]
    apart = ("experiments", "integrations", "__main__")
    rooms = [name for name in rooms if not any(part in name for part in apart)]
    code = f"import sys, importlib\nfor m in {rooms!r}: importlib.import_module(m)\n"
    code += f"print([m for m in {EXTRAS!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_whole_public_api_is_explicit() -> None:
    assert sorted(set(drbo.__all__)) == sorted(drbo.__all__)
    assert all(hasattr(drbo, name) for name in drbo.__all__)
