"""Run the tests in several environments, each in its own folder under .matrix/, and print a table.

python scripts/matrix.py                                  # all environments
python scripts/matrix.py 3.12 3.11-lowest -- -k worst     # two of them, with arguments for pytest

Environments named by a Python version alone have the newest packages that pyproject.toml allows; `-lowest` has the
lowest ones. An environment whose interpreter is not on this machine is skipped. The exit code is 1 if any run failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lowest import ROOT, lowest, requirements

FOLDER = ROOT / ".matrix"
VERSIONS = "import numpy, scipy, numba; print(numpy.__version__, scipy.__version__, numba.__version__)"


@dataclass(frozen=True)
class Environment:
    """A Python version, the newest or the lowest packages, and variables that choose code for another processor."""

    python: str
    lowest: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the folder of the virtual environment; those that differ in variables share one."""
        return FOLDER / f"venv-{self.python}-{'lowest' if self.lowest else 'newest'}"

    @property
    def compiled(self) -> Path:
        """Return the folder of numba's compiled code; those that differ in the linear algebra library share one."""
        return FOLDER / f"numba-{self.folder.name}-{self.variables.get('NUMBA_CPU_NAME', 'host')}"


ENVIRONMENTS = {
    "3.11": Environment("3.11"),
    "3.12": Environment("3.12"),
    "3.13": Environment("3.13"),
    "3.14": Environment("3.14"),
    "3.11-lowest": Environment("3.11", lowest=True),
    "3.11-generic": Environment("3.11", variables={"NUMBA_CPU_NAME": "generic"}),
    "3.11-nehalem": Environment("3.11", variables={"OPENBLAS_CORETYPE": "Nehalem"}),
    "3.11-haswell": Environment("3.11", variables={"OPENBLAS_CORETYPE": "Haswell"}),
    "3.11-two-threads": Environment("3.11", variables={"OPENBLAS_NUM_THREADS": "2"}),
}


@dataclass(frozen=True)
class Row:
    """What came out in one environment."""

    name: str
    packages: str
    result: str
    seconds: float
    failed: bool = False


def find_interpreter(version: str) -> Path | None:
    """Return a Python of that version, from the search path or from pyenv; None if there is none that runs."""
    root = os.environ.get("PYENV_ROOT")
    installed = sorted(Path(root).glob(f"versions/{version}.*/bin/python")) if root else []
    named = shutil.which(f"python{version}")
    for path in [*([Path(named)] if named else []), *reversed(installed)]:
        done = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True)
        if done.returncode == 0 and done.stdout.decode().strip() == version:
            return path
    return None


def set_up(environment: Environment, interpreter: Path) -> Path:
    """Create or update the virtual environment; return its Python."""
    python = environment.folder / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", environment.folder], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*pip, "pip"], check=True)
    which = ["--upgrade-strategy", "eager"]
    if environment.lowest:
        constraints = environment.folder / "lowest.txt"
        constraints.write_text("\n".join(lowest(requirements(ROOT / "pyproject.toml"))) + "\n")
        which = ["--constraint", str(constraints)]
    subprocess.run([*pip, *which, "--group", "test", "--editable", ".[all]"], check=True, cwd=ROOT)
    return python


def run(name: str, arguments: list[str]) -> Row:
    """Run the tests in one environment; the output goes to the terminal and to a file."""
    environment, started = ENVIRONMENTS[name], time.monotonic()
    interpreter = find_interpreter(environment.python)
    if interpreter is None:
        return Row(name, "-", f"skipped: no python{environment.python} on the path or under $PYENV_ROOT", 0.0)
    try:
        python = set_up(environment, interpreter)
    except subprocess.CalledProcessError as error:
        return Row(name, "-", f"set-up failed: {error}", time.monotonic() - started, failed=True)
    packages = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.strip()
    variables = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(environment.compiled),
        **environment.variables,
    }
    log, last, started = FOLDER / f"{name}.log", "no output", time.monotonic()
    command = [str(python), "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *arguments]
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
            last = line.strip() or last  # at the end: how many passed
    return Row(name, packages, last, time.monotonic() - started, failed=process.returncode != 0)


def main() -> None:
    """Run the environments that the command line names, or all of them."""
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="environment", help=f"one of {', '.join(ENVIRONMENTS)}; all")
    names = parser.parse_args(given[:end]).names or list(ENVIRONMENTS)
    if unknown := [name for name in names if name not in ENVIRONMENTS]:
        parser.error(f"unknown environment {', '.join(unknown)}; known: {', '.join(ENVIRONMENTS)}")
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for name in names:
        print(f"=== {name}", flush=True)
        rows.append(run(name, given[end + 1 :]))
    print(f"\n{'environment':18}{'numpy scipy numba':24}{'seconds':>8}  result")
    for row in rows:
        print(f"{row.name:18}{row.packages:24}{row.seconds:8.0f}  {row.result}")
    sys.exit(any(row.failed for row in rows))


if __name__ == "__main__":
    main()
