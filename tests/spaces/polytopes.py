"""Random boxes with constraints, and what an action breaks by arithmetic on the user's values alone."""

from typing import Any

import numpy as np

from drbo import AtMostActive, Box, Categorical, Integer, LinearConstraint, Log, Ordinal, Total
from drbo.spaces.parameters import Parameter


def random_box(seed: int) -> Box:
    """Return a box of 4 to 9 parameters of all kinds, with constraints that at least one action satisfies."""
    rng = np.random.default_rng(seed)
    numbers: dict[str, Parameter | tuple[float, float]] = {}
    for i in range(int(rng.integers(3, 7))):
        low, wide = rng.normal() * 10.0 ** rng.integers(-3, 4), 10.0 ** rng.integers(-3, 4)
        kind = rng.integers(4)
        if kind == 0:
            numbers[f"n{i}"] = Integer(int(rng.integers(-5, 3)), int(rng.integers(4, 30)))
        elif kind == 1:
            numbers[f"l{i}"] = Log(10.0 ** -int(rng.integers(1, 4)), 10.0 ** int(rng.integers(0, 3)))
        else:
            numbers[f"x{i}"] = (low, low + wide)
    zeros = {f"z{i}": (-1.0, 2.0) for i in range(int(rng.integers(0, 4)))} if seed % 3 == 0 else {}
    choices: dict[str, Any] = {"c": Categorical("u", "v", "w"), "o": Ordinal("S", "M", "L")} if seed % 2 else {}
    free = Box({**numbers, **zeros, **choices})
    some = free.decode(free.spread(1, seed)[0])
    constraints: list[Any] = []
    for _ in range(int(rng.integers(1, 4))):
        named = [name for name in numbers if rng.random() < 0.7] or [next(iter(numbers))]
        factors = {name: float(rng.choice((-2.0, -1.0, 0.5, 1.0))) / _wide(free, name) for name in named}
        total = sum(factor * some[name] for name, factor in factors.items())
        logs = any(isinstance(free.parameters[name], Log) for name in named)
        if rng.random() < 0.4 and not logs:
            constraints.append(LinearConstraint(factors, equals=total))
        elif rng.random() < 0.5:
            constraints.append(LinearConstraint(factors, at_most=total + 0.2 * rng.random()))
        else:
            constraints.append(LinearConstraint(factors, at_least=total - 0.2, at_most=total + 0.3))
    if len(zeros) > 1:
        constraints.append(AtMostActive(*zeros, count=1))
        constraints.append(Total(*zeros, at_most=1.5))
    return Box({**numbers, **zeros, **choices}, constraints=constraints)


def _wide(box: Box, name: str) -> float:
    p: Any = box.parameters[name]
    return float(p.high - p.low)


def violation(box: Box, action: dict[str, Any]) -> float:
    """Return the largest violation of a constraint, as a share of sum |a_i| range_i; inf for what is not a number."""
    worst = 0.0
    for name, p in box.parameters.items():
        p.encode(name, action[name])  # raises if it is no value of the parameter
        assert not isinstance(p, Integer) or isinstance(action[name], int)
    for one in box.constraints:
        if isinstance(one, AtMostActive):
            worst = max(worst, float("inf") if sum(action[name] != 0.0 for name in one.names) > one.count else 0.0)
        elif isinstance(one, LinearConstraint):
            low, high = one.bounds
            total = sum(factor * action[name] for name, factor in one.coefficients.items())
            size = sum(abs(factor) * _wide(box, name) for name, factor in one.coefficients.items())
            worst = max(worst, (total - high) / size, (low - total) / size)
        else:
            worst = max(worst, 0.0 if one(action) else float("inf"))
    return worst
