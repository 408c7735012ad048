"""Every Python block of the README and of the docs runs, and prints what a reader would hope for."""

import re
from pathlib import Path
from typing import Any

import pytest

import drbo

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STORIES = {"architecture.md", "targets.md"}
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


def test_the_first_example_has_a_radius_that_says_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW U4: it ended at 0.83 of at most 1.41. No evaluation is needed to see it: the radius is of the past."""
    monkeypatch.chdir(tmp_path)
    program = programs(ROOT / "README.md")[0].split("for _ in range(20):")[0]
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(program, "README", "exec"), names)
    told = names["opt"].explain_radius()
    assert 0.0 < told.radius < 0.5 * told.diameter


def test_every_rule_is_called_and_what_it_assumes_is_said() -> None:
    """REVIEW U22."""
    radius_page = (ROOT / "docs" / "radius.md").read_text()
    rules = [name for name, rule in vars(drbo.radius).items() if isinstance(rule, type) and is_rule(rule)]
    assert len(rules) >= 6
    assert [name for name in rules if name != "Own" and f"{name}(" not in radius_page] == []
    assert "backtest(" in radius_page
    readme = (ROOT / "README.md").read_text()
    for text, said in ((readme, "independent draws, which it assumes"), (radius_page, "It assumes independent days")):
        assert said in text
    assert "`drbo.radius.Bootstrap`\nfor independent days" in (ROOT / "docs" / "ambiguity.md").read_text()
    assert "examples/" in readme
    assert "examples/" in radius_page


def is_rule(rule: type) -> bool:
    return issubclass(rule, drbo.radius.RadiusRule) and rule is not drbo.radius.RadiusRule
