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


def main(names: list[str]) -> int:
    """Return the exit code."""
    results: dict[str, bool] = {}
    examples = [ROOT / "examples" / f"{name}.py" for name in names] or sorted((ROOT / "examples").glob("*.py"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        builder = fresh(folder / "builder")
        if not run(builder, "-m", "pip", "install", *PINNED, "build", folder=folder):
            return 1
        results["build"] = run(builder, "-m", "build", "--outdir", folder / "dist", ROOT, folder=folder)
        wheels, sdists = list(folder.glob("dist/*.whl")), list(folder.glob("dist/*.tar.gz"))
        if not (results["build"] and len(wheels) == len(sdists) == 1):
            return 1
        held = zipfile.ZipFile(wheels[0]).namelist()
        results["the wheel holds drbo alone, with its data"] = {*NEEDED} <= {*held} and all(
            name.startswith("drbo") for name in held
        )
        python = fresh(folder / "sdist")
        results["install the sdist"] = run(python, "-m", "pip", "install", *PINNED, sdists[0], folder=folder)
        results["import it"] = run(python, "-c", "import drbo; drbo.MMD([0, 1]).worst_case([0, 1], [0.5, 0.5], 0.1)", folder=folder)
        python = fresh(folder / "wheel")
        results["install the wheel"] = run(python, "-m", "pip", "install", *PINNED, f"{wheels[0]}[all]", folder=folder)
        for example in examples:
            results[f"examples/{example.name}"] = run(python, example, folder=folder)
    for name, succeeded in results.items():
        print(f"{'ok' if succeeded else 'FAILED':>6}  {name}")
    return int(not all(results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
