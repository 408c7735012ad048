"""Record what the installed drbo chooses on the golden runs: `python tests/golden/record.py OUT.json`."""

import json
import sys
from pathlib import Path
from typing import Any


def record() -> dict[str, Any]:
    """Return the choices and recommendations of every run."""
    from golden.runs import RUNS, drive, recommendations

    recorded = {}
    for run in RUNS:
        opt = run.make()
        recorded[run.name] = {"choices": drive(run, opt), "at_the_end": recommendations(opt)}
    return recorded


def written(recorded: dict[str, Any]) -> str:
    """Return the record as JSON, one choice a line."""
    lines = []
    for name, run in recorded.items():
        parts = [f'  "choices": [\n   {_lines(run["choices"])}\n  ]']
        parts.append(f'  "at_the_end": {json.dumps(run["at_the_end"])}')
        lines.append(f' "{name}": {{\n' + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(choices: list[dict[str, Any]]) -> str:
    return ",\n   ".join(json.dumps(one, allow_nan=False) for one in choices)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    Path(sys.argv[1]).write_text(written(record()))


if __name__ == "__main__":
    main()
