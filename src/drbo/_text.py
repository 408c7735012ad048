"""What users typed, as text that a terminal shows and never obeys."""

from __future__ import annotations


def printable(value: object, *, lines: bool = False) -> str:
    r"""Return a value as text whose control characters are written out: ESC as \x1b, a new line as \n.

    With `lines`, new lines stay: the text is a message of several lines.
    """
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else c.encode("unicode_escape").decode() for c in str(value)
    )
