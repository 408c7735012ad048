"""One page that shows what was learned and what is promised: `opt.report("heating.html")`.

It uses the public interface of an optimizer only. `contents.py` computes what the page says, `figures.py` draws it and
`page.py` writes it down; `page.css` and `page.js` belong to the page.
"""

from drbo.report.page import write

__all__ = ["write"]
