"""How functions are compiled, and how machine code is kept for the next process.

The first call takes seconds where the machine code is not cached yet, which is said once.

numba's own cache has two holes through which a process gets machine code that is not that of its call, and then
computes wrong numbers in silence. `_Cache` closes both.

- numba numbers the files of machine code, one per signature. Two processes that compile a function at the same time for
  two signatures give both files the same number. Here the name of a file follows from the signature.
- numba compiles a function anew when its own module has changed, but not when a function that it calls has, in
  another module. Here it does so when any compiled module (`_*.py`) beside its own has changed.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

_LOGGER = logging.getLogger("drbo")


class _Cache(IndexDataCacheFile):
    """The machine code of one function, in one file per signature and processor, and an index of these files."""

    def save(self, key: Any, data: Any) -> None:
        """Save the machine code of a signature, and only then its entry in the index.

        Two processes that save at the same time may lose an entry, which costs another compilation.
        """
        digest = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode()).digest()
        name = self._data_name(int.from_bytes(digest[:8], "big"))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def holds_code(self) -> bool:
        """Return whether there is machine code of the modules as they are now, for any signature."""
        return bool(self._load_index())


@functools.cache
def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, time of change and size of the compiled modules in a folder."""
    found = sorted((path.name, path.stat()) for path in folder.glob("_*.py"))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function when it is first called, and keeps its machine code."""

    def decorate(function: Callable[..., Any]) -> Any:
        options_of_all = {"error_model": "numpy", **options}
        try:
            made = numba.njit(cache=True, **options_of_all)(function)
        except RuntimeError:  # no folder can be written to
            made = numba.njit(**options_of_all)(function)
        cache = getattr(made, "_cache", None)  # NUMBA_DISABLE_JIT=1: `made` is the function itself
        if isinstance(cache, FunctionCache):
            kept, folder = cache._cache_file, Path(function.__code__.co_filename).parent
            stamp = (kept._source_stamp, _stamps(folder))
            cache._cache_file = _Cache(cache.cache_path, cache._impl.filename_base, stamp)
        return made

    return decorate


# Sums may be reassociated into vector instructions; nothing so compiled relies on the sign of a zero.
# No innermost loop may both add up numbers and write to an array: where arrays lie close to each other in memory, the
# compiler's code for that loop adds up one number after the other, so that last digits would depend on where they lie.
# A test (tests/test_layout.py) reads the loops.
jit = _compiled(fastmath={"reassoc", "contract", "nsz"})
in_order = _compiled()
"""As `jit`, but nothing is reassociated: for functions whose results must agree bit for bit, or whose signs decide."""


@functools.cache  # a look-up from the second call on
def announce(function: Any) -> None:
    """Log that `function` is about to be compiled, if it is, and if nothing was announced in this process before."""
    if not hasattr(function, "stats"):  # NUMBA_DISABLE_JIT=1: nothing is compiled
        return
    if function.stats.cache_path is None:
        _say_once("compiling the solvers; this takes up to half a minute, in every process: no folder for the result")
    elif not function._cache._cache_file.holds_code():
        _say_once("compiling the solvers; this takes up to half a minute, once: the result is cached")


@functools.cache
def _say_once(text: str) -> None:
    _LOGGER.warning(text)
