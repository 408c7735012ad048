"""Without the packages of the extras the core works, and whatever needs one says in one sentence what to install."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import drbo
from drbo._messages import MissingExtraError, require

ROOT = Path(__file__).parent.parent
INTEGRATIONS = ("optuna", "sklearn", "mlflow", "ray")
BLOCKED = ("typer", "rich", "matplotlib", "joblib", "pandas", "distributed", "plotly", *INTEGRATIONS)
BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
BLOCKED = set({BLOCKED!r})
sys.meta_path.insert(0, Block())
"""
"""Code after which the blocked packages cannot be imported, as if they were not installed."""


def without_extras(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, cwd=cwd, check=False)


def test_the_block_blocks(tmp_path: Path) -> None:
    assert "No module named 'pandas'" in without_extras("import pandas", tmp_path).stderr


def test_the_core_needs_four_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {Requirement(text).name for text in project["dependencies"]}
    assert names == {"numpy", "scipy", "numba", "threadpoolctl"}


def test_everything_that_the_tests_need_is_in_the_extra_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == set(extras) - {"all", "botorch", "mlflow", "ray"}


def test_nothing_that_make_test_installs_brings_torch() -> None:
    """It is gigabytes on some machines."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = content["project"]["optional-dependencies"], content["dependency-groups"]
    (everything,) = extras["all"]
    texts = [
        *content["project"]["dependencies"],
        *(text for name in Requirement(everything).extras for text in extras[name]),
    ]
    texts += [text for name in ("test", "dev") for text in groups[name] if isinstance(text, str)]
    assert not {Requirement(text).name for text in texts} & {"torch", "botorch", "gpytorch"}


def test_the_core_asks_and_is_told(tmp_path: Path) -> None:
    code = """
import drbo, numpy as np
for actions in (np.linspace(0.0, 1.0, 4), drbo.Box({"x": (0.0, 1.0)})):
    setting = drbo.Simulator(np.full(3, 1 / 3), 0.1, pick="uncertain")
    opt = drbo.Optimizer(actions, np.linspace(0.0, 1.0, 3), ambiguity=drbo.MMD(), setting=setting)
    opt.tell(opt.ask(), 1.0)
    opt.ask()
opt.save("opt.json")
drbo.Optimizer.load("opt.json").recommend()
opt.report("opt.html")
print("done")
try:
    opt.to_frame()
except ImportError as error:
    print(error)
"""
    done = without_extras(code, tmp_path)
    assert done.stdout.splitlines() == [
        "done",
        "pandas is not installed; this needs: pip install 'drbo[frame]'",
    ], done.stderr


@pytest.mark.parametrize("arguments", [["--help"], [], ["problems"], ["demo"], ["nonsense"]])
def test_the_command_line_without_its_extra(arguments: list[str], tmp_path: Path) -> None:
    done = without_extras(f"sys.argv[1:] = {arguments!r}\nfrom drbo.__main__ import main\nmain()", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "drbo: typer is not installed; this needs: pip install 'drbo[cli]'\n"


@pytest.mark.parametrize(
    ("commands", "missing"),
    [
        (["demo", *(f"reproduce {name}" for name in ("figure1", "figure2", "figure3", "dial", "sets"))], "matplotlib"),
        (["demo", "reproduce figure2", "reproduce figure3"], "joblib"),
    ],
)
def test_commands_without_the_extra_experiments(commands: list[str], missing: str, tmp_path: Path) -> None:
    """The sentence comes before a sweep, not after it, and leaves no file."""
    code = f"""
BLOCKED.intersection_update([{missing!r}])
from drbo.__main__ import main
for command in {commands!r}:
    sys.argv[1:] = command.split()
    try:
        main()
    except SystemExit as ended:
        print(command, ended.code)
"""
    done = without_extras(code, tmp_path)
    assert done.stdout.splitlines() == [f"{command} 1" for command in commands], done.stderr
    sentence = f"error: {missing} is not installed; this needs: pip install 'drbo[experiments]'"
    said = [line for line in done.stderr.splitlines() if not line.startswith("benchmark 1 in the simulator setting")]
    assert said == [sentence] * len(commands)
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_problems_needs_the_command_line_alone(tmp_path: Path) -> None:
    code = "BLOCKED -= {'typer', 'rich'}\nsys.argv[1:] = ['problems']\nfrom drbo.__main__ import main\nmain()"
    done = without_extras(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "benchmark_1" in done.stdout


def test_experiments_as_a_library(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from drbo import experiments
for name in ("figure1", "figure2", "dial", "sets", "demo"):
    try:
        getattr(experiments, name)(experiments.Plan(Path("out")))
    except ImportError as error:
        print(error)
"""
    done = without_extras(code, tmp_path)
    sentence = "matplotlib is not installed; this needs: pip install 'drbo[experiments]'"
    assert done.stdout.splitlines() == [sentence] * 5, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_integrations_name_their_extras(tmp_path: Path) -> None:
    code = f"""
for name in {INTEGRATIONS}:
    try:
        __import__("drbo.integrations." + name)
    except ImportError as error:
        print(error)
"""
    sentences = [
        f"{name} is not installed; this needs: pip install 'drbo[{name}]'"
        for name in ("optuna", "sklearn", "mlflow", "ray")
    ]
    assert without_extras(code, tmp_path).stdout.splitlines() == sentences


def test_a_missing_package_is_named_once_in_one_sentence() -> None:
    with pytest.raises(MissingExtraError, match=r"^no_such_package is not installed; .* 'drbo\[report\]'$") as caught:
        require("no_such_package.inner", "report")
    assert caught.value.name == "no_such_package"


def test_a_package_that_is_there_and_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("raise ImportError('built for another numpy')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="built for another numpy") as caught:
        require("broken_package", "report")
    assert not isinstance(caught.value, MissingExtraError)


def test_what_is_there_comes_back() -> None:
    assert require("drbo.kernels", "cli").RBF is drbo.RBF
