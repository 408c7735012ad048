"""Code blocks of the documents: how they are read, run, and compared with the output that a page shows below them.

    python tests/pages.py README.md docs/tutorial.md

runs the blocks of these pages, and writes what they print and the pictures that they save into the pages.

A block of code is fenced by ```python. A block fenced by ```text that follows it is what it prints. A line `...` in it
stands for any number of lines. A comment `<!-- needs: smac -->` before a block says that it runs only where that
package is installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STORIES = {"architecture.md", "choose.md", "limits.md", "model_selection.md", "targets.md", "tutorial.md"}
"""Pages whose blocks go on where the one before ended; those of the others stand alone."""
BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>\w+) -->\n\s*)?```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?",
    re.DOTALL,
)
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
DIGITS = 5e-3
"""Relative tolerance of a printed number."""


@dataclass(frozen=True)
class Block:
    """A block of code, the line it begins in, what the page says that it prints, and the package that it needs."""

    code: str
    line: int
    printed: str | None
    needs: str | None

    @property
    def missing(self) -> bool:
        """Return whether the package that the block needs is not installed."""
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [
        Block(m["code"], text.count("\n", 0, m.start("code")), m["printed"], m["needs"]) for m in BLOCK.finditer(text)
    ]


def programs_of(page: Path) -> list[list[Block]]:
    """Return the blocks of a page by program: all of them in a story, one per program in any other page."""
    blocks = blocks_of(page.read_text())
    return [blocks] if page.name in STORIES and blocks else [[block] for block in blocks]


def run(blocks: Sequence[Block], page: str, names: dict[str, Any] | None = None) -> Iterator[tuple[Block, str]]:
    """Run blocks one after the other in the working directory; yield each with what it printed."""
    names = {"__name__": "page"} if names is None else names
    for block in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.code, page, "exec", dont_inherit=True), names)
        yield block, out.getvalue()


def agrees(shown: str, printed: str) -> bool:
    """Return whether a program printed what a page shows: words exactly, numbers to three digits, spaces in any way."""
    parts = [part.split() for part in re.split(r"^\s*\.\.\.\s*$", shown, flags=re.MULTILINE)]
    rest = printed.split()
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return same_words(first, rest)
    if not same_words(first, rest[: len(first)]) or len(rest) < len(first) + len(last):
        return False
    if last and not same_words(last, rest[-len(last) :]):
        return False
    rest = rest[len(first) : len(rest) - len(last)]
    for part in parts[1:-1]:
        starts = (i for i in range(len(rest) - len(part) + 1) if same_words(part, rest[i : i + len(part)]))
        found = next(starts, None)
        if found is None:
            return False
        rest = rest[found + len(part) :]
    return True


def same_words(shown: Sequence[str], printed: Sequence[str]) -> bool:
    return len(shown) == len(printed) and all(map(same_word, shown, printed))


def same_word(shown: str, printed: str) -> bool:
    numbers = NUMBER.findall(shown), NUMBER.findall(printed)
    return (
        NUMBER.split(shown) == NUMBER.split(printed)
        and len(numbers[0]) == len(numbers[1])
        and all(map(same_number, *numbers))
    )


def same_number(shown: str, printed: str) -> bool:
    """Return whether two numbers agree to `DIGITS`; the third digit or a later one may be rounded the other way."""
    a, b = (float(number.replace(",", "")) for number in (shown, printed))
    decimals = len(shown.partition(".")[2]) if "e" not in shown.lower() and "." in shown else 0
    unit = 1.01 * 10.0**-decimals if decimals else 0.0
    return abs(a - b) <= max(DIGITS * abs(a), unit if unit <= 0.0101 * abs(a) else 0.0)


def check(blocks: Sequence[Block], page: str, names: dict[str, Any] | None = None) -> None:
    """Run blocks in the working directory, and compare what they print with what the page shows."""
    for block in blocks:
        if block.missing:
            pytest.skip(f"{block.needs} is not installed")
    for block, printed in run(blocks, page, names):
        if block.printed is not None and not agrees(block.printed, printed):
            pytest.fail(
                f"the block at line {block.line} of {page} printed\n{printed}\nwhere the page shows\n{block.printed}\n"
                f"If the page is to be changed: python tests/pages.py {page}"
            )


def rewrite(page: Path) -> None:
    """Run a page, and write what its blocks print, and the pictures that they save, where the page shows them."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for program in programs_of(page):
            if any(block.missing for block in program):
                continue
            for block, printed in run(program, page.name):
                if block.printed is None or agrees(block.printed, printed):
                    continue
                if re.search(r"^\s*\.\.\.\s*$", block.printed, re.MULTILINE):
                    print(f"{page.name}, line {block.line}: has `...`, change it by hand. It printed\n{printed}")
                    continue
                old = f"```python\n{block.code}```\n\n```text\n{block.printed}```"
                text = text.replace(old, f"```python\n{block.code}```\n\n```text\n{printed}```")
        for picture in Path(folder).glob("*.png"):
            if f"figures/{picture.name}" in text:
                shutil.copy(picture, ROOT / "docs" / "figures" / picture.name)
    page.write_text(text)


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
