"""Write the pictures of reports in docs/figures: of the README's first example, and of a heating controller.

python scripts/report_picture.py     # needs chromium or google-chrome, and playwright
"""

from __future__ import annotations

import importlib
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import drbo

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
WIDTH, HEIGHT = 1000, 760
HEATING = {"report.png": ("deploy", "progress"), "report_conditions.png": ("conditions", "baseline"),
           "report_model.png": ("trust", "model")}  # fmt: skip
"""The pictures of the heating controller: the first and the last section that each shows."""


def cooling() -> drbo.Optimizer:
    """Return the run of the README."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(program, "README.md", "exec"), names)
    made: drbo.Optimizer = names["opt"]
    return made


def heating(evaluations: int = 48) -> drbo.Optimizer:
    """Return a run of the simulator of examples/simulator.py, with two evaluations under way."""
    sys.path.insert(0, str(ROOT / "examples"))
    simulator = importlib.import_module("simulator")
    opt = drbo.Optimizer(
        actions=drbo.Box(
            setpoint=(18.0, 24.0),
            gain=drbo.Log(1e-3, 1.0),
            stages=drbo.Integer(1, 4),
            mode=drbo.Categorical("eco", "boost"),
        ),
        contexts=drbo.Samples(simulator.archive(), names=["outdoor", "occupancy"]),
        ambiguity=drbo.Wasserstein(order=math.inf, scale={"outdoor": 3.0, "occupancy": 0.2}),
        setting=drbo.Simulator(radius=1.0),
        maximize=False,
        baseline={"setpoint": 21.0, "gain": 0.03, "stages": 2, "mode": "eco"},
        outcome="cost",
        unit="EUR per day",
        outcome_range=(0.0, None),
    )
    for _ in range(evaluations):
        s = opt.ask()
        opt.tell(s, simulator.simulate(s.action, s.context))
    opt.ask(2)
    return opt


def main() -> None:
    """Make the runs, write their reports, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(cooling().report(Path(folder) / "cooling.html").as_uri())
        page.screenshot(path=FIGURES / "report_cooling.png")
        page.goto(heating().report(Path(folder) / "heating.html").as_uri())
        for name, ends in HEATING.items():
            first, last = (page.locator(f"#{end}").bounding_box() for end in ends)
            assert first is not None
            assert last is not None
            top = 0.0 if "deploy" in ends else first["y"] - 8.0
            height = last["y"] + last["height"] + 8.0 - top
            area: Any = {"x": 0.0, "y": top, "width": float(WIDTH), "height": height}
            page.screenshot(path=FIGURES / name, clip=area, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
