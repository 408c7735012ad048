"""Fill in the owner of the repository, wherever its address stands: `python scripts/address.py OWNER`."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"github\.com/OWNER/|OWNER\.github\.io/|^    - OWNER$", re.MULTILINE)
FILES = (".cff", ".toml", ".yml", ".yaml", ".md")


def fill_in(owner: str, root: Path = ROOT) -> list[Path]:
    """Replace OWNER in the files that git knows, and return those that were changed."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,39}", owner) or owner == "OWNER":
        raise ValueError(f"owner must be the name of an account on GitHub, got {owner!r}")
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    changed = []
    for path in [root / name for name in listed.splitlines() if name.endswith(FILES)]:
        text = path.read_text(encoding="utf-8")
        filled = PLACE.sub(lambda found: found[0].replace("OWNER", owner), text)
        if filled != text:
            path.write_text(filled, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    (owner,) = sys.argv[1:]
    for changed in fill_in(owner):
        print(changed.relative_to(ROOT))
