"""The values of outcomes in a `tell`: of the objective, and of limited outcomes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo import validation
from drbo._fast_record import fast_record
from drbo._messages import listed, printable
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Readings

__all__ = ["Measured"]

LARGEST_OUTCOME = 1e100
"""Largest outcome; a model of larger values would overflow."""


@dataclass(frozen=True)
class Measured:
    """A value of a limited outcome with its standard error: `tell(s, y, limits={"peak": Measured(61.0, stderr=0.5)})`.

    Parameters
    ----------
    value : the measured value
    stderr : its standard error, which replaces the model's noise
    """

    value: float
    stderr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _in_range("value", validation.finite_float("value", self.value)))
        error = validation.finite_float("stderr", self.stderr)
        if not 0.0 <= error <= LARGEST_OUTCOME:
            raise ValueError(f"stderr must be from 0 to {LARGEST_OUTCOME:g}, got {error}")
        object.__setattr__(self, "stderr", error)


def by_context(outcome: Any, contexts: Any, stderr: Any) -> tuple[Any, Any, Any]:
    """Return outcomes, contexts and standard errors as sequences if the outcomes are a mapping from contexts.

    A pandas Series without `contexts` is such a mapping, unless it has the default index. Outcomes of any other form
    are returned unchanged.
    """
    if contexts is None:
        outcome = _as_mapping(outcome)
    if not isinstance(outcome, Mapping):
        return outcome, contexts, stderr
    if contexts is not None:
        raise TypeError("contexts must not be given with a mapping from contexts to outcomes")
    if not outcome:
        raise ValueError("outcome must not be empty: it maps each context to its outcome")
    stderr = validation.by_name(stderr)
    if isinstance(stderr, Mapping):
        if set(stderr) != set(outcome):
            raise ValueError(f"stderr must map the same contexts as outcome, {list(outcome)}, got {list(stderr)}")
        stderr = [stderr[context] for context in outcome]
    return list(outcome.values()), list(outcome), stderr


def _as_mapping(values: Any) -> Any:
    """Return a Series without the default index as a mapping, and any other value unchanged."""
    named = validation.by_name(values)
    return named if isinstance(named, Mapping) and list(named) != list(range(len(named))) else values


@fast_record
class Given:
    """The values that a `tell` or an `amend` was given: sequences or numbers, in the order of `contexts`.

    Attributes
    ----------
    outcome, stderr : of the objective; None if not given
    contexts : those that a mapping names, or the argument `contexts`
    limits : the values by name; None for an outcome that was not measured
    """

    outcome: Any
    stderr: Any
    contexts: Any
    limits: Mapping[str, Any]

    @classmethod
    def of(cls, own: Configuration, outcome: Any, stderr: Any, contexts: Any, limits: Any) -> Given:
        """Return the given values; raise if names or contexts do not agree."""
        named = _named(own, limits)
        if isinstance(outcome, Mapping):
            _refuse_names(own, outcome)
        outcome, order, stderr = by_context(outcome, contexts, stderr)
        mapped = order if contexts is None else None
        found = {}
        for name, values in named.items():
            values = _as_mapping(values)
            if isinstance(values, Mapping):
                if contexts is not None:
                    raise TypeError(f"{label(name)} must be a sequence in the order of contexts, got a mapping")
                if mapped is None and outcome is not None:
                    raise TypeError(
                        f"{label(name)} must have the form of outcome, a number or a sequence, got a mapping"
                    )
                mapped = list(values) if mapped is None else mapped
                if set(values) != set(mapped) or not mapped:
                    raise ValueError(
                        f"{label(name)} must map the same contexts as the other outcomes, {listed(mapped)}, got "
                        f"{listed(values)}"
                    )
                values = [values[context] for context in mapped]
            found[name] = values
        return cls(outcome, stderr, contexts if mapped is None else mapped, found)

    @property
    def nothing(self) -> bool:
        """Whether no value was given."""
        return self.outcome is None and all(values is None for values in self.limits.values())

    def readings(self, count: int) -> dict[str, Readings]:
        """Return the values of all measured outcomes in `count` contexts."""
        found = {}
        if self.outcome is not None:
            found[OBJECTIVE] = Readings(checked_outcomes(self.outcome, count), checked_stderrs(self.stderr, count))
        for name, values in self.limits.items():
            if values is not None:
                found[name] = _limited(label(name), values, count)
        return found


def label(name: str) -> str:
    """Return the name of a limit in errors."""
    return f"limits[{printable(repr(name))}]"


def _named(own: Configuration, limits: Any) -> dict[str, Any]:
    """Return the given values of limited outcomes by name, in the order of the configuration."""
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise TypeError(f'limits must map names to values, such as {{"peak": 61.0}}, got {limits!r}')
    if not own.measured:
        raise TypeError(
            'limits must not be given: this optimizer has none. Make it with Optimizer(..., limits={"peak": '
            "drbo.AtMost(68.0)})"
        )
    unknown = [name for name in limits if name not in own.measured]
    if unknown and unknown[0] == own.objective.name:
        raise ValueError(f"limits must not hold {printable(repr(unknown[0]))}, the objective: its value is the outcome")
    if unknown:
        first = own.measured[0]
        raise ValueError(
            f"limits must map names of limited outcomes, {listed(own.measured)}, to values, got "
            f"{printable(repr(unknown[0]))}; values by context are limits={{{first!r}: {{context: value}}}}"
        )
    return {name: limits[name] for name in own.measured if name in limits}


def _refuse_names(own: Configuration, outcome: Mapping[Any, Any]) -> None:
    """Raise if outcomes by context are outcomes by name."""
    names = {own.objective.name, *own.measured}
    if own.measured and outcome and set(outcome) <= names:
        raise TypeError(
            f"outcome must be the value of the objective alone, got a mapping of {listed(outcome)}: tell(s, outcome, "
            f"limits={{{own.measured[0]!r}: value}})"
        )


def checked_outcomes(outcome: Any, count: int, name: str = "outcome") -> tuple[float, ...]:
    """Return the values of `count` contexts: one number, or a sequence with one per context."""
    return tuple(_in_range(one, y) for one, y in _one_each(name, outcome, count).items())


def _in_range(name: str, value: float) -> float:
    if abs(value) > LARGEST_OUTCOME:
        raise ValueError(f"{name} must not exceed {LARGEST_OUTCOME:g} in size, got {value}")
    return value


def checked_stderrs(stderr: Any, count: int) -> tuple[float, ...]:
    """Return the standard errors of `count` outcomes: one number for all, or one each; empty for None."""
    if stderr is None:
        return ()
    alike = dimensions(stderr) == 0
    values = _one_each("stderr", stderr, 1 if alike else count)
    for name, error in values.items():
        if not 0.0 <= error <= LARGEST_OUTCOME:
            raise ValueError(f"{name} must be from 0 to {LARGEST_OUTCOME:g}, got {error}")
    return tuple(values.values()) * (count if alike else 1)


def _limited(name: str, values: Any, count: int) -> Readings:
    """Return the values of a limited outcome; each may have a standard error."""
    parts = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    with_error = [isinstance(part, Measured) for part in parts]
    if not any(with_error):
        return Readings(checked_outcomes(values, count, name))
    if not all(with_error):
        raise TypeError(
            f"{name} must have a standard error for all contexts or for none: give a drbo.Measured for each"
        )
    if len(parts) != count:
        raise ValueError(f"{name} must hold one value per context, {count}, got {len(parts)}")
    return Readings(tuple(part.value for part in parts), tuple(part.stderr for part in parts))


def _one_each(name: str, given: Any, count: int) -> dict[str, float]:
    """Return `count` numbers by their names in errors."""
    if isinstance(given, Mapping):
        raise TypeError(f"{name} must be a number or a sequence of numbers here, got a mapping")
    size = dimensions(given)
    if size == 0 and count == 1:
        return {name: validation.finite_float(name, given)}
    if size != 1 or len(given) != count:
        found = f"{len(given)}" if size == 1 else f"{given!r}"
        raise ValueError(f"{name} must hold one number per context, {count}, got {found}")
    return {f"{name}[{i}]": validation.finite_float(f"{name}[{i}]", one) for i, one in enumerate(given)}


def dimensions(value: Any) -> int | None:
    """Return the number of array dimensions of a value; None if its rows differ in length."""
    try:
        return np.asarray(value).ndim  # np.ndim takes seven times as long for a number
    except ValueError:
        return None
