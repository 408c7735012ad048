"""What a notebook shows: small HTML in which everything that a user typed is text."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from drbo.spaces.rows import text


def as_html(title: str, cells: Iterable[tuple[str, Any]], details: str = "") -> str:
    """Return a title, a table of names and values, and details in a fixed font, folded away."""
    lines = "".join(f"<tr><th>{_escape(name)}</th><td>{_escape(text(value))}</td></tr>" for name, value in cells)
    folded = f"<details><summary>in full</summary><pre>{_escape(details)}</pre></details>" if details else ""
    return f"<div><strong>{_escape(title)}</strong><table>{lines}</table>{folded}</div>"


def _escape(value: str) -> str:
    return html.escape(value, quote=True)
