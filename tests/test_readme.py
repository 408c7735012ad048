"""Every Python block of the README and of the docs runs, and prints what a reader would hope for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STORIES = {"architecture.md"}
"""Pages whose blocks go on where the one before ended; those of the others stand alone."""


def programs(page: Path) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return ["\n".join(blocks)] if page.name in STORIES and blocks else blocks


PROGRAMS = [pytest.param(program, id=f"{page.name}-{i}") for page in PAGES for i, program in enumerate(programs(page))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_code_block_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README", "exec"), {"__name__": "readme"})


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
