"""Write docs/cheat_sheet.pdf, one page, from docs/cheat_sheet.md.

python scripts/cheat_sheet.py     # needs chromium or google-chrome, playwright, and markdown-it-py (with `make docs`)
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
STYLE = """
@page { size: A4 landscape; margin: 8mm; }
body { font: 8.1px/1.32 system-ui, sans-serif; columns: 2; column-gap: 7mm; margin: 0; color: #1c2430; }
h1 { font-size: 15px; margin: 0 0 3px; } h2 { font-size: 10.5px; margin: 7px 0 2px; color: #0b6aa8; }
table { border-collapse: collapse; width: 100%; break-inside: avoid; } thead { display: none; }
td { border-top: 1px solid #dfe3e8; padding: 1.5px 4px 1.5px 0; vertical-align: top; }
code { font: 7.3px/1.3 ui-monospace, monospace; } pre { background: #f3f5f8; padding: 4px 6px; margin: 2px 0; }
p { margin: 3px 0; }
"""


def main() -> None:
    """Print the page from a browser."""
    text = (DOCS / "cheat_sheet.md").read_text()
    text = re.sub(r"^One page, also as a .*\n", "", text, flags=re.MULTILINE).replace("  # fmt: skip", "")
    body = MarkdownIt("commonmark").enable("table").render(text)
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(f"<!doctype html><title>drbo cheat sheet</title><style>{STYLE}</style>{body}")
        page.pdf(path=DOCS / "cheat_sheet.pdf", prefer_css_page_size=True, print_background=True)
        browser.close()


if __name__ == "__main__":
    main()
