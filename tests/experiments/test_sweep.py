"""The progress bar, on a terminal and without one."""

import os
import pty
import re
import subprocess
import sys

import pytest

CODE = """
from drbo.experiments.records import _progress
with _progress("figure2", total=4, done=1) as advance:
    advance()
    advance()
print("done")
"""
ESCAPE = re.compile(r"\x1b\[[0-9;?]*([A-Za-z])")


def on_terminal(code: str, **environment: str) -> str:
    """Return all that the code shows on a terminal of 80 columns, escape sequences and all."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # what Linux says when the last one on the other side has gone
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode()


@pytest.mark.parametrize("no_color", [False, True])
def test_the_bar_advances_on_a_terminal(no_color: bool) -> None:
    shown = on_terminal(CODE, **({"NO_COLOR": "1"} if no_color else {}))
    last = ESCAPE.sub("", shown).split("\r")[-3:]
    assert "figure2 ━━━━━" in "".join(last)
    assert "3/4" in "".join(last)
    assert shown.endswith("done\r\n")
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is hidden, and comes back
    colours = [kind for kind in ESCAPE.findall(shown) if kind == "m"]
    assert bool(colours) == (not no_color)


def test_without_a_terminal_there_is_no_bar() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
