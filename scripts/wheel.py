"""Build the sdist and the wheel, install each in a fresh environment, and run the examples against the wheel.

python scripts/wheel.py                     # all examples
python scripts/wheel.py simulator floor     # two of them

Nothing of the source tree is on the path of the examples. The exit code is 1 if anything failed. It needs a
package index for the dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = (
    "drbo/py.typed",
    "drbo/report/page.css",
    "drbo/report/page.js",
    "drbo/problems/data/la_haute_borne_2014_2015.csv",
)
"""Files that are not Python, and without which an installed drbo would fail."""
SOLVE = "import drbo; drbo.MMD([0, 1]).worst_case([0, 1], [0.5, 0.5], 0.1)"
PINNED = ("--quiet", "--constraint", str(ROOT / "constraints.txt"))


def fresh(folder: Path) -> Path:
    """Return the interpreter of a new environment."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(*command: str | Path, folder: Path) -> bool:
    """Run a command outside of the source tree; say whether it succeeded, and show its output where it did not."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout)
    return done.returncode == 0


def report(name: str, succeeded: bool) -> bool:
    """Print a line, and return whether it succeeded."""
    print(f"{'ok' if succeeded else 'FAILED':>6}  {name}", flush=True)
    return succeeded


def main(names: list[str]) -> int:
    """Return the exit code."""
    examples = [ROOT / "examples" / f"{name}.py" for name in names] or sorted((ROOT / "examples").glob("*.py"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        builder = fresh(folder / "builder")
        built = run(builder, "-m", "pip", "install", *PINNED, "build", folder=folder) and run(
            builder, "-m", "build", "--outdir", folder / "dist", ROOT, folder=folder
        )
        if not report("build the sdist, and the wheel from it", built):
            return 1
        (wheel,), (sdist,) = folder.glob("dist/*.whl"), folder.glob("dist/*.tar.gz")
        held = zipfile.ZipFile(wheel).namelist()
        complete = {*NEEDED} <= {*held} and all(name.startswith("drbo") for name in held)
        results = [report("the wheel holds drbo alone, with its data", complete)]
        python = fresh(folder / "sdist")
        installed = run(python, "-m", "pip", "install", *PINNED, sdist, folder=folder)
        results.append(report("install the sdist", installed and run(python, "-c", SOLVE, folder=folder)))
        python = fresh(folder / "wheel")
        installed = run(python, "-m", "pip", "install", *PINNED, f"{wheel}[all]", folder=folder)
        results.append(report("install the wheel", installed and run(python, "-c", SOLVE, folder=folder)))
        results += [report(f"examples/{path.name}", run(python, path, folder=folder)) for path in examples]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
