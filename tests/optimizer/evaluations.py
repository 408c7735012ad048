"""What workers of other processes evaluate, for tests of `drbo.run`. They need not import drbo."""

import os
import time
from typing import Any

import numpy as np

GRID = np.linspace(0.0, 1.0, 8)


def outcome(action: Any, context: Any) -> float:
    return float(np.sin(5.0 * action[0]) * np.cos(3.0 * context[0]))


def fails_often(action: Any, context: Any) -> float:
    if context[0] > 0.5:
        raise ArithmeticError(f"diverged at {context[0]:.2f}")
    return outcome(action, context)


def drawn(action: Any) -> tuple[float, Any]:
    context = GRID[int(1000 * action[0]) % 8]
    return outcome(action, [context]), context


def worker(action: Any, context: Any) -> float:
    """Return the number of the process that evaluates."""
    del action, context
    time.sleep(0.02)
    return float(os.getpid())


def ends_its_process(action: Any, context: Any) -> float:
    del action, context
    os._exit(3)
