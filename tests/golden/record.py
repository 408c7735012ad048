"""Record what the installed drbo chooses on the golden runs: `python tests/golden/record.py OUT.json [FILES]`.

With a second argument also what it saves in the middle of them, one file a run, into that folder.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def record(folder: Path) -> dict[str, Any]:
    """Return the choices and recommendations of every run, and save files in the middle of some into a folder."""
    from golden.runs import RUNS, as_in_0_1, drive, recommendations

    recorded = {}
    for run in RUNS:
        opt = run.make()
        choices = drive(run, opt, 0, run.saved_at)
        saved = None
        if run.saved_at is not None:
            opt.save(folder / run.file.name)
            with as_in_0_1():  # of a copy: in 0.1 a recommendation may change what is asked next
                saved = recommendations(type(opt).load(folder / run.file.name))
            choices += drive(run, opt, run.saved_at)
        recorded[run.name] = {"choices": choices, "at_the_end": recommendations(opt), "when_saved": saved}
    return recorded


def written(recorded: dict[str, Any]) -> str:
    """Return the record as JSON, one choice a line."""
    lines = []
    for name, run in recorded.items():
        parts = [f'  "choices": [\n   {_lines(run["choices"])}\n  ]']
        parts += [f'  "{key}": {json.dumps(run[key])}' for key in ("at_the_end", "when_saved")]
        lines.append(f' "{name}": {{\n' + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(choices: list[dict[str, Any]]) -> str:
    return ",\n   ".join(json.dumps(one, allow_nan=False) for one in choices)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch)
        Path(sys.argv[1]).write_text(written(record(folder)))


if __name__ == "__main__":
    main()
