"""The attack on worst cases (`make attack`), at small size."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "attack.py"


def test_no_case_of_any_set_is_wrong() -> None:
    arguments = ["--cases", "600", "--first", "77", "--jobs", "1"]
    run = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    sets = run.stdout.splitlines()[2:]
    assert len(sets) == 12
    assert all(row.endswith(" 0 |") for row in sets)
