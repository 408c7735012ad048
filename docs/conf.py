"""How Sphinx builds the site: `make docs` writes it to out/docs."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from sphinx.application import Sphinx

import drbo

project = "drbo"
author = copyright = "The drbo maintainers"
version = release = drbo.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # the changelog has headings of levels 2 and 4

html_theme = "furo"
html_title = f"drbo {release}"
exclude_patterns = ["stories/*.txt"]
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["phone.css"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",  # ours
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "friendly"

autodoc_mock_imports = ["botorch", "gpytorch", "torch", "mlflow", "ray"]  # large, and not needed to read a docstring
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
# Types of other packages, and of modules that are not documented, have no page of ours to lead to.
nitpick_ignore_regex = [(r"py:.*", r"(?!drbo\.[A-Z]\w*$).*")]

COPIES = {"benchmarks/RESULTS.md": "results.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def plain_text(line: str) -> str:
    """Return a line of a docstring for Sphinx: what stands in backticks is code, every other sign stands for itself."""
    pieces = line.split("`")
    text = [re.sub(r"([\\\\*|_])", r"\\\1", piece) for piece in pieces[::2]]
    code = [f"``{piece}``" for piece in pieces[1::2]]
    return "".join(a + b for a, b in zip(text, [*code, ""], strict=True))


def plain_docstring(lines: list[str]) -> list[str]:
    """Return a docstring for Sphinx: text, indented formulas, and the sections "Parameters" and "Attributes"."""
    text = re.sub(
        r"`[^`]*`", lambda code: re.sub(r"\n\s*", " ", code[0]), "\n".join(lines)
    )  # code that spans two lines
    lines, out = text.split("\n"), list[str]()
    section = formula = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"}:
            out += [f".. rubric:: {line}", ""]
            section = True
        elif line and set(line) == {"-"}:
            continue
        elif section and re.match(r"\S.* : ", line):
            name, text = line.split(" : ", maxsplit=1)
            out += [f"``{name}``", f"    {plain_text(text)}"]
        elif not section and line.startswith("    ") and (formula or not out or not out[-1]):
            out += [line] if formula else ["::", "", line]
            formula = True
            continue
        else:
            out.append(plain_text(line))
        formula = formula and not line
    return out


def read_docstring(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Replace the lines of a docstring by what Sphinx reads."""
    lines[:] = plain_docstring(lines)


def short_types(
    _app: Sphinx, _what: str, _name: str, _thing: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write numpy's ArrayLike and an array of floats by their names in place of what they are made of."""
    given = [signature, returns]
    for pattern, name in (
        (r"\S*_Buffer \| .*?_NestedSequence\[[^\[\]]*complex[^\[\]]*\]", "ArrayLike"),
        (r"[~\w.]*ndarray\[[~\w.]*tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[[~\w.]*float64\]\]", "FloatArray"),
    ):
        given = [None if text is None else re.sub(pattern, name, text) for text in given]
    return given[0], given[1]


def lead_into_the_site(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Let links to files outside of the site lead to their copies in it."""
    for file, copy in COPIES.items():
        source[0] = re.sub(rf"\]\((\.\./)?{file}", f"]({copy}", source[0])


def directive(name: str) -> str:
    """Return the line that documents a public name of drbo."""
    thing = getattr(drbo, name)
    if isinstance(thing, type):
        return f".. auto{'exception' if issubclass(thing, Exception) else 'class'}:: drbo.{name}"
    return f".. auto{'function' if callable(thing) else 'data'}:: drbo.{name}"


def complete_the_reference(_app: Sphinx, page: str, source: list[str]) -> None:
    """Document every public name that no page of the reference names on its last page."""
    if page == "api/more":
        pages = "".join(path.read_text() for path in (Path(__file__).parent / "api").glob("*.md"))
        named = {"radius", *re.findall(r"auto\w+:: drbo\.(\w+)", pages)}
        lines = [directive(name) for name in sorted(drbo.__all__) if name not in named]
        source[0] += "\n".join(["```{eval-rst}", *lines, "```", ""])


def setup(app: Sphinx) -> None:
    """Tell Sphinx of these."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", short_types)
    app.connect("source-read", lead_into_the_site)
    app.connect("source-read", complete_the_reference)
