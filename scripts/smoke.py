"""Try an installed drbo: a run, a file, a report, the command line. Nothing of the source tree may be imported.

python smoke.py FOLDER      # a folder for the files
"""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import drbo


def main(folder: Path) -> None:
    """Raise if anything fails."""
    assert Path(sys.prefix) in Path(drbo.__file__).parents, f"drbo is imported from {drbo.__file__}"
    assert version("drbo") == drbo.__version__
    archive = np.random.default_rng(0).normal(5.0, 8.0, (40, 1))
    box, samples = drbo.Box(setpoint=(18.0, 24.0)), drbo.Samples(archive, names=["outdoor"])
    for ambiguity in (drbo.MMD(), drbo.Wasserstein(scale={"outdoor": 8.0})):
        opt = drbo.Optimizer(box, samples, setting=drbo.Simulator(radius=0.1), ambiguity=ambiguity)
        for _ in range(6):
            s = opt.ask()
            opt.tell(s, -((s.action["setpoint"] - 20.0 - 0.05 * s.context["outdoor"]) ** 2))
        print(opt.recommend())
    with tempfile.TemporaryDirectory(dir=folder) as here:
        path = Path(here) / "run.json"
        opt.save(path)
        assert drbo.Optimizer.load(path).recommend().action == opt.recommend().action
        opt.report(Path(here) / "run.html")
        for words in (["--version"], ["show", str(path)], ["problems"]):
            subprocess.run([sys.executable, "-m", "drbo", *words], check=True, cwd=here)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
