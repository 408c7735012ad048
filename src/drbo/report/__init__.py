"""One page that shows what was learned and what is promised: `opt.report("heating.html")`.

It uses the public interface of an optimizer only. `contents.py` and `surface.py` compute what the page says and which
marks it shows (`values.py`: at which values). `scales.py` places values along an axis, `marks.py` draws marks as SVG,
`figures.py` puts them on two axes, and `page.py` writes it all down (`escaping.py`: words of users). `page.css` and
`page.js` belong to the page.
"""

from drbo.report.page import write

__all__ = ["write"]
