"""One HTML page about a run and its recommendation: `opt.report("heating.html")`.

The report uses only the public interface of an optimizer. `contents.py` and `surface.py` compute the text and the
marks. `scales.py` places values along an axis, `marks.py` draws marks and figures as SVG, and `page.py` writes the page
with `page.css` and `page.js`.
"""

from drbo.report.page import write

__all__ = ["write"]
