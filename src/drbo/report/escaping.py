"""Texts of users in the page: shown as they were typed, and never read as markup."""

from __future__ import annotations

import html
from typing import Any


def escaped(value: Any) -> str:
    """Return a value as HTML that shows it, in an element or an attribute.

    HTML has no character 0, and a page keeps a carriage return only if it is written as a number.
    """
    return html.escape(str(value)).replace("\0", "\ufffd").replace("\r", "&#13;")
