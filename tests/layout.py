"""Where arrays lie in memory, and what of a function's results depends on it."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FAR = 1 << 14
"""A gap between two arrays, in bytes, across which no compiler looks."""
NEAR = 40
"""Arrays that lie close to each other are this many places of 8 bytes apart at most."""


def by_layout(function: Callable[..., Any], arguments: Sequence[Any], tries: int = 200) -> set[Any]:
    """Return the different results of a function, in bits: its value, and its arrays as it leaves them.

    In the first try the arrays lie far from each other, then close together in one block of memory, in random order.
    """
    rng = np.random.default_rng(0)
    results = set()
    for i in range(tries):
        placed = _placed(arguments, rng, close=i > 0)
        value = function(*placed)
        results.add((repr(value), *(one.tobytes() for one in placed if isinstance(one, np.ndarray))))
    return results


def _placed(arguments: Sequence[Any], rng: np.random.Generator, *, close: bool) -> list[Any]:
    """Return the arguments with their arrays copied into one block of memory."""
    placed = list(arguments)
    arrays = [i for i, one in enumerate(arguments) if isinstance(one, np.ndarray)]
    block = np.zeros(sum(arguments[i].nbytes for i in arrays) + (len(arrays) + 1) * FAR, dtype=np.uint8)
    at = -block.ctypes.data % 64
    for i in rng.permutation(arrays):
        at += 8 * int(rng.integers(NEAR)) if close else FAR - FAR // 4
        size = arguments[i].nbytes
        placed[i] = block[at : at + size].view(arguments[i].dtype).reshape(arguments[i].shape)
        placed[i][...] = arguments[i]
        at += size
    return placed


COUNTERS = {"count", "counts", "n_left", "size"}
"""Names of whole numbers, whose sums are exact in any order."""


def sums_that_write(source: str) -> list[str]:
    """Return the sums in innermost loops that also write to an array, of functions compiled by `jit`.

    Such a loop has two versions in machine code: one that adds up several numbers at a time, and one for arrays that
    may overlap, which are also those that lie close to each other. The two round otherwise.
    """
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and any(ast.unparse(one) == "jit" for one in function.decorator_list):
            for loop in filter(_is_loop, ast.walk(function)):
                inside = list(ast.walk(loop))
                writes = any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in inside)
                if writes and sum(map(_is_loop, inside)) == 1:
                    found += [f"{function.name}: {ast.unparse(node)}" for node in inside if _adds_up(node, loop)]
    return found


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.While)


def _adds_up(node: ast.AST, loop: ast.AST) -> bool:
    """Return whether a statement adds to a number that the whole loop adds to."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):  # total = total + x
        names = _names(node.targets[0])
        again = names <= _names(node.value)
    else:
        names = _names(node.target) if isinstance(node, ast.AugAssign) else set()
        again = bool(names)
    moving = _names(loop.target) if isinstance(loop, ast.For) else set()
    return again and not names & (COUNTERS | moving)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
