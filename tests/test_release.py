"""What a release rests on: one version, pinned actions, a recipe that says what pyproject.toml says."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import drbo

yaml = pytest.importorskip("yaml", reason="distributed brings it")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from address import fill_in  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place_and_others_agree() -> None:
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert read("CITATION.cff")["version"] == drbo.__version__
    assert read("integrations/conda-forge/recipe.yaml")["context"]["version"] == drbo.__version__
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None
    assert first[1] == drbo.__version__
    assert f"v{drbo.__version__}" in (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")


def test_the_recipe_needs_what_the_package_needs() -> None:
    run = read("integrations/conda-forge/recipe.yaml")["requirements"]["run"]
    wanted = {text.replace(">=", " >=") for text in PROJECT["dependencies"]}
    assert {text for text in run if not text.startswith("python ")} == wanted
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert read("integrations/conda-forge/recipe.yaml")["context"]["python_min"] == lowest


def test_the_recipe_is_rendered_by_rattler_build() -> None:
    rattler_build = pytest.importorskip("rattler_build", reason="pip install py-rattler-build")
    recipe = rattler_build.Stage0Recipe.from_file(str(ROOT / "integrations/conda-forge/recipe.yaml"))
    (made,) = recipe.render(rattler_build.VariantConfig())
    found = made.recipe.to_dict()
    assert found["package"] == {"name": "drbo", "version": drbo.__version__}
    assert found["build"]["noarch"] == "python"
    assert "python >=3.11" in found["requirements"]["run"]


def test_the_pythons_of_the_classifiers_are_tested() -> None:
    named = [text.rsplit(" ", 1)[-1] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert read(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash_and_rights_are_few(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", one)] == []
    assert text.startswith("# UNTESTED")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_every_make_target_that_a_workflow_calls_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = {
        name for path in WORKFLOWS for name in re.findall(r"run: make ([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert called
    assert [name for name in called if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow runs on Linux")
def test_publishing_needs_an_address_and_the_tag_of_the_version(tmp_path: Path) -> None:
    steps = read(".github/workflows/publish.yml")["jobs"]["build"]["steps"]
    (step,) = [step for step in steps if "TAG" in step.get("env", {})]
    (tmp_path / "src" / "drbo").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "drbo" / "__init__.py", tmp_path / "src" / "drbo")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace("github.com/OWNER", "github.com/somebody")

    def works(tag: str, text: str) -> bool:
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        environment = {"TAG": tag, "PATH": os.environ["PATH"]}
        return subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environment).returncode == 0

    assert works(f"v{drbo.__version__}", project)
    assert not works("v0.0.1", project)
    assert not works(f"v{drbo.__version__}", project.replace("github.com/somebody", "github.com/OWNER"))


def test_the_package_for_the_hub_says_what_the_sampler_takes() -> None:
    pytest.importorskip("optuna", reason="pip install 'drbo[optuna]'")
    from drbo.integrations.optuna import RobustSampler

    text = (ROOT / "integrations/optunahub/package/samplers/drbo/README.md").read_text(encoding="utf-8")
    listed = re.search(r"^- `RobustSampler\((.*)\)`$", text, re.MULTILINE)
    assert listed is not None
    known = list(inspect.signature(RobustSampler).parameters.values())
    defaults = {one.name: one.name if one.default is one.empty else f"{one.name}={one.default}" for one in known}
    assert listed[1].replace("*, ", "") == ", ".join(defaults.values())
    head = yaml.safe_load(text.split("---")[1])
    wanted = {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert {name for name, value in head.items() if value} == wanted


def test_forms_and_the_container_are_readable() -> None:
    for name in ("wrong-result", "wish"):
        form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
        assert {"name", "description", "body"} <= set(form)
        assert len({part["id"] for part in form["body"]}) == len(form["body"])
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert made["postCreateCommand"] == "make .venv/.ready"


def git(folder: Path, *words: str) -> str:
    own = ["git", "-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run([*own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_owner_is_filled_in_everywhere(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    for name in ("pyproject.toml", "CITATION.cff", "SECURITY.md", "integrations/conda-forge/recipe.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    git(tmp_path, "add", ".")
    assert len(fill_in("some-body", tmp_path)) == 4
    assert fill_in("some-body", tmp_path) == []
    left = [path for path in tmp_path.rglob("*.*") if path.is_file() and ".git" not in path.parts]
    places = [path.name for path in left if "OWNER" in path.read_text(encoding="utf-8").replace("OWNER=...", "")]
    assert places == ["pyproject.toml"]  # the comment that says how to fill it in
    with pytest.raises(ValueError, match="owner must be the name of an account"):
        fill_in("a/b", tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the script runs on Linux")
def test_the_site_of_each_version_has_a_folder(tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    git(tmp_path, "init", "--quiet", "--bare", str(far))
    git(tmp_path, "clone", "--quiet", str(far), str(near))
    (near / "README.md").write_text("code", encoding="utf-8")
    git(near, "add", ".")
    git(near, "commit", "--quiet", "-m", "first")
    git(near, "push", "--quiet", "origin", "HEAD:main")
    for kind, ref, text in (
        ("branch", "main", "a"),
        ("tag", "v0.9.0", "b"),
        ("tag", "v0.10.0", "c"),
        ("branch", "main", "d"),
    ):
        (near / "out" / "docs").mkdir(parents=True, exist_ok=True)
        (near / "out" / "docs" / "index.html").write_text(text, encoding="utf-8")
        environment = {"KIND": kind, "REF": ref, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
        script = ["bash", str(ROOT / ".github" / "publish_docs.sh")]
        done = subprocess.run(script, cwd=near, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def page(name: str) -> str:
        return git(far, "show", f"gh-pages:{name}")

    assert [page(f"{name}/index.html") for name in ("dev", "0.9.0", "0.10.0")] == ["d", "b", "c"]
    assert "url=0.10.0/" in page("index.html")
    assert json.loads(page("versions.json")) == ["dev", "0.10.0", "0.9.0"]
    menu = (ROOT / "docs" / "_templates" / "sidebar" / "versions.html").read_text(encoding="utf-8")
    assert '"../versions.json"' in menu
    assert "README.md" not in git(far, "ls-tree", "--name-only", "gh-pages")
