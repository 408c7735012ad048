"""How time and memory are measured, and on what machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

VERSIONS = (
    "drbo", "numpy", "scipy", "numba", "cvxpy", "clarabel", "ecos", "scikit-learn", "torch", "gpytorch", "botorch",
)  # fmt: skip


clock = time.process_time
"""CPU time: with one thread it is the time on an idle machine, and other jobs on this one hardly count."""


def best_of(work: Callable[[], object], repeats: int, warm_up: bool = True) -> float:
    """Return the shortest time in seconds of `repeats` runs, after one that is not counted."""
    if warm_up:
        work()
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def resident() -> int:
    """Return the memory in use in bytes, now; Linux only, like `peak`."""
    return _status("VmRSS")


def reset_peak() -> None:
    """Let `peak` count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the largest memory in use in bytes since `reset_peak`."""
    return _status("VmHWM")


def machine() -> list[str]:
    """Return lines that describe the machine, its load, and the versions."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.processor())
    return [
        f"- {cpu}, {os.cpu_count()} cores, one of them used; {platform.system()}, Python {platform.python_version()}",
        "- " + ", ".join(f"{name} {_version(name)}" for name in VERSIONS),
    ]


def load() -> str:
    """Return the load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {field} in /proc/self/status")
