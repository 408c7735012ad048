"""Everything of a release that needs no account: build, check, install in fresh environments, try; a table.

python scripts/release_check.py                 # every Python on this machine, newest and lowest packages
python scripts/release_check.py 3.11 3.13       # two of them

The sdist and the wheel stay in dist/. Environments are made anew in .matrix/. An interpreter is found on the search
path or under $PYENV_ROOT; one that is missing is a row of the table, and no failure. The exit code is 1 if a row
failed. It needs a package index.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lowest import ROOT, lowest, requirements
from matrix import FOLDER, find_interpreter
from wheel import NEEDED

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 2_000_000
"""Bytes of a wheel."""
TOOLS = ("build", "twine", "check-wheel-contents")
SMOKE = ROOT / "scripts" / "smoke.py"
VERSIONS = (
    "import importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in ('numpy', 'scipy', 'numba')), sep=', ')"
)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    result: str
    detail: str = ""
    seconds: float = 0.0


def call(command: Sequence[str | Path], folder: Path) -> tuple[bool, str]:
    """Run a command; return whether it succeeded, and its output."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode == 0, done.stdout


def environment(interpreter: Path | str, name: str) -> Path:
    """Return the Python of a fresh environment."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True)
    return python


def build() -> tuple[list[Row], Path | None]:
    """Build into an empty dist/; return the rows, and the wheel."""
    begun, dist = time.monotonic(), ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    tools = environment(sys.executable, "release-tools")
    ready, _ = call([tools, "-m", "pip", "install", "--quiet", *TOOLS], ROOT)
    built = ready and call([tools, "-m", "build", "--outdir", dist, ROOT], ROOT)[0]
    rows = [_row("build the sdist, and the wheel from it", built, begun)]
    if not built:
        return rows, None
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    bin_ = tools.parent
    checks: dict[str, list[str | Path]] = {
        "twine check --strict": [bin_ / "twine", "check", "--strict", wheel, sdist],
        "check-wheel-contents": [bin_ / "check-wheel-contents", wheel],
    }
    for name, command in checks.items():
        begun = time.monotonic()
        rows.append(_row(name, call(command, ROOT)[0], begun))
    held = zipfile.ZipFile(wheel).namelist()
    complete = {*NEEDED} <= {*held} and all(name.startswith("drbo") for name in held)
    rows.append(_row("the wheel holds drbo alone, with its data", complete, detail=f"{len(held)} files"))
    size = wheel.stat().st_size
    rows.append(_row(f"the wheel is below {LARGEST / 1e6:g} MB", size < LARGEST, detail=f"{size / 1e6:.2f} MB"))
    named = "github.com/OWNER" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    rows.append(
        Row("the address of the repository", "ok" if named else "to do", "" if named else "make address OWNER=...")
    )
    return rows, wheel


def install(version: str, kind: str, wheel: Path) -> Row:
    """Install the wheel in a fresh environment, and try it."""
    begun, what = time.monotonic(), f"Python {version}, {kind} packages"
    interpreter = find_interpreter(version)
    if interpreter is None:
        return Row(what, "not run", "no such Python on this machine")
    python = environment(interpreter, f"release-{version}-{kind}")
    chosen: list[str | Path] = []
    if kind == "lowest":
        constraints = python.parents[1] / "lowest.txt"
        constraints.write_text("\n".join(lowest(requirements(ROOT / "pyproject.toml"))) + "\n", encoding="utf-8")
        chosen = ["--constraint", constraints]
    ready, _ = call([python, "-m", "pip", "install", "--quiet", *chosen, f"{wheel}[cli]"], FOLDER)
    done = ready and call([python, "-W", "error", SMOKE, FOLDER], FOLDER)[0]
    detail = call([python, "-c", VERSIONS], FOLDER)[1].strip() if ready else "could not be installed"
    return _row(what, done, begun, detail)


def _row(what: str, succeeded: bool, begun: float | None = None, detail: str = "") -> Row:
    row = Row(what, "ok" if succeeded else "FAILED", detail, 0.0 if begun is None else time.monotonic() - begun)
    print(f"{row.result:>7}  {row.what}  {row.detail}", flush=True)
    return row


def main(versions: Sequence[str]) -> int:
    """Run the check, and return the exit code."""
    FOLDER.mkdir(exist_ok=True)
    rows, wheel = build()
    if wheel is not None:
        for version in versions:
            rows.append(install(version, "newest", wheel))
        rows.append(install(versions[0], "lowest", wheel))
    print("\n| what | result | seconds | |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.result} | {row.seconds:.0f} | {row.detail} |")
    return int(any(row.result == "FAILED" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PYTHONS))
