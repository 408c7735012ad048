"""Compilation of functions, and a cache of the machine code for later processes.

The first call takes seconds if the machine code is not cached yet. A message says so once.

numba's own cache has two bugs that load the wrong machine code, so that results are silently wrong. `_Cache` fixes
both.

- numba numbers the files of machine code, one per signature. Two processes that compile a function at the same time for
  two signatures use the same number. Here the file name is derived from the signature.
- numba recompiles a function when its own module has changed, but not when a function that it calls has, in
  another module. Here it recompiles when any compiled module (`_*.py`) in the same folder has changed.
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
    """The machine code of one function: one file per signature and processor, and an index of these files."""

    def save(self, key: Any, data: Any) -> None:
        """Save the machine code of a signature, then its index entry; of two saves at once, one entry may be lost."""
        digest = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode()).digest()
        name = self._data_name(int.from_bytes(digest[:8], "big"))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def holds_code(self) -> bool:
        """Return whether machine code of the current modules is cached, for any signature."""
        return bool(self._load_index())


@functools.cache
def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, modification time and size of the compiled modules in a folder."""
    found = sorted((path.name, path.stat()) for path in folder.glob("_*.py"))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function on its first call and caches the machine code."""

    def decorate(function: Callable[..., Any]) -> Any:
        options_of_all = {"error_model": "numpy", **options}
        try:
            made = numba.njit(cache=True, **options_of_all)(function)
        except RuntimeError:  # no writable folder
            made = numba.njit(**options_of_all)(function)
        cache = getattr(made, "_cache", None)  # NUMBA_DISABLE_JIT=1: `made` is the function itself
        if isinstance(cache, FunctionCache):
            kept, folder = cache._cache_file, Path(function.__code__.co_filename).parent
            stamp = (kept._source_stamp, _stamps(folder))
            cache._cache_file = _Cache(cache.cache_path, cache._impl.filename_base, stamp)
        return made

    return decorate


# Sums may be reassociated for vector instructions; no function compiled with `jit` relies on the sign of a zero.
# No innermost loop may both sum numbers and write to an array. If the arrays are close in memory, the compiled loop
# is not vectorised, so that the last digits would depend on the memory layout.
# A test (tests/test_layout.py) reads the loops.
jit = _compiled(fastmath={"reassoc", "contract", "nsz"})
in_order = _compiled()
"""As `jit`, without reassociation: for functions whose results must be bitwise equal, or whose signs matter."""


@functools.cache  # only a look-up after the first call
def announce(function: Any) -> None:
    """Log that `function` is about to be compiled, unless it is cached or a message was logged before."""
    if not hasattr(function, "stats"):  # NUMBA_DISABLE_JIT=1: nothing is compiled
        return
    if function.stats.cache_path is None:
        _say_once("compiling the solvers, half a minute on an idle machine, in every process: no folder for the cache")
    elif not function._cache._cache_file.holds_code():
        _say_once("compiling the solvers, half a minute on an idle machine, once: the result is cached")


@functools.cache
def _say_once(text: str) -> None:
    _LOGGER.warning(text)
