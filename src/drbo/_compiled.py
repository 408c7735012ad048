"""How functions are compiled. The first call takes seconds where its machine code is not cached yet: say so, once."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import numba

# Sums may be reassociated into vector instructions; nothing so compiled relies on the sign of a zero.
jit = numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")

_LOGGER = logging.getLogger("drbo")


@functools.cache  # a look-up from the second call on
def announce(function: Any) -> None:
    """Log that `function` is about to be compiled, if it is, and if nothing was announced in this process before."""
    if not hasattr(function, "stats"):  # NUMBA_DISABLE_JIT=1: nothing is compiled
        return
    cached = Path(function.stats.cache_path).glob(f"*.{function.__name__}-*.nbi")
    if not any(cached):
        _say_once()


@functools.cache
def _say_once() -> None:
    _LOGGER.warning("compiling the solvers; this takes up to half a minute, once: the result is cached")
