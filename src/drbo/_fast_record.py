"""Records that every round makes: frozen for the type checker, and plain at run time.

A frozen dataclass sets each field through `object.__setattr__`, which takes five times as long as an assignment. One
`ask` on a grid sets 150 fields. Records that a user holds, such as suggestions and answers, are frozen dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import dataclass_transform

    _T = TypeVar("_T")

    @dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
    def fast_record(cls: type[_T]) -> type[_T]:
        """Return the class as a dataclass that is compared by identity and never changes."""

else:
    fast_record = dataclass(eq=False)
