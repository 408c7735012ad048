"""Write docs/figures/report_cooling.png: the beginning of the report of the README's first example, in a browser.

python scripts/report_picture.py     # needs chromium or google-chrome, and playwright
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1000, 900


def main() -> None:
    """Run the example, write its report, and take the picture."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(program, "README.md", "exec"), names)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), sync_playwright() as playwright:
        names["opt"].report("cooling.html")  # type: ignore[attr-defined]  # the README made it
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox"] if os.name != "nt" else []
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((Path(folder) / "cooling.html").as_uri())
        page.screenshot(path=ROOT / "docs" / "figures" / "report_cooling.png")
        browser.close()


if __name__ == "__main__":
    main()
