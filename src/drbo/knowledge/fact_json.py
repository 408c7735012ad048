"""Facts <-> JSON records: the lines of a file, and the elements of `Optimizer.records`.

A point of a finite set is stored by its index, any other point by its coordinates. A record written elsewhere may give
a value instead, {"value": {"setpoint": 21.0}}. Outcomes are stored by name, {"": {"values": [1.5], "stderrs": [0.1]}},
with one value per context; the objective has the empty name. Format 3 stores a list of the objective's values, and the
standard errors beside it. Every field is checked when it is read. Records of an unknown kind are refused.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np

from drbo import validation
from drbo.knowledge.encoding import RefusedError, TooOldError, UnknownClassError, decode, encode, shortened
from drbo.knowledge.history import (
    NO_READINGS,
    OBJECTIVE,
    Amended,
    Asked,
    Cancelled,
    Fact,
    Proposal,
    Readings,
    Retracted,
    Told,
)
from drbo.models.surrogate import Fit
from drbo.rounds.policies import Reason
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


def records_of(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """Return the records of facts, one mapping each; references are stored inside the records."""
    return [record_of(fact, encode) for fact in facts]


def facts_of(
    records: Sequence[dict[str, Any]], actions: Space, contexts: Space, classes: Sequence[Callable[..., Any]]
) -> list[Fact]:
    """Return the facts of the records of `records_of`; an error names the record."""
    reader, facts = Reader(actions, contexts, classes), []
    for i, record in enumerate(records):
        with told_as(f"records[{i}] is not a record: "):
            fact = reader.read(record)
            if fact is None:
                raise ValueError("it is a reference, which belongs inside the record that uses it")
            facts.append(fact)
    return facts


@contextlib.contextmanager
def told_as(beginning: str) -> Iterator[None]:
    """Turn any error in a record into a one-sentence error."""
    try:
        yield
    except (RefusedError, UnknownClassError):
        raise
    except KeyError as error:
        raise ValueError(f"{beginning}it lacks {shortened(str(error))}") from None
    except RecursionError:
        raise ValueError(f"{beginning}it is nested too deeply") from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(beginning + shortened(str(error) or repr(error))) from None


# --- writing --------------------------------------------------------------------------------------------------------


def _point(point: Point | None) -> Any:
    if point is None:
        return None
    return {"index": point.index} if point.index is not None else {"at": point.coordinates.tolist()}


def _readings(outcomes: Mapping[str, Readings]) -> dict[str, Any]:
    return {
        name: {"values": list(one.values), **({"stderrs": list(one.stderrs)} if one.stderrs else {})}
        for name, one in outcomes.items()
    }


def record_of(fact: Fact, position: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the record of a fact; `position` encodes a reference."""
    kind = {"kind": type(fact).__name__.lower(), "time": fact.time}
    if isinstance(fact, Asked):
        return kind | _asked(fact, position)
    if isinstance(fact, Cancelled):
        return kind | {"number": fact.number}
    if isinstance(fact, Retracted):
        return kind | {"result": fact.result}
    contexts, outcomes = [_point(context) for context in fact.contexts], _readings(fact.outcomes)
    weights = {"weights": list(fact.weights)} if fact.weights else {}
    if isinstance(fact, Amended):
        return kind | {"result": fact.result, "contexts": contexts, "outcomes": outcomes, **weights}
    told = {"number": fact.number, "action": _point(fact.action), "contexts": contexts, "outcomes": outcomes}
    return kind | told | {"drawn": fact.drawn, **weights}


def _asked(fact: Asked, position: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "reference": position(fact.reference),
        "radius": encode(fact.radius),
        "fits": {name: encode(fit) for name, fit in fact.fits.items()},
        "proposals": [
            {
                "number": p.number,
                "action": _point(p.action),
                "context": _point(p.context),
                "more_contexts": [_point(context) for context in p.more_contexts],
                "radius": encode(p.radius),
                "score": encode(p.score),
                "bound": encode(p.bound),
                "further": p.further.tolist(),
                **({"loss": p.loss} if p.loss else {}),
                **({"fallback": True} if p.fallback else {}),
                **({"reason": p.reason} if p.reason != "search" else {}),
            }
            for p in fact.proposals
        ],
        **({"awaited": list(fact.awaited)} if fact.awaited else {}),
        **({} if fact.given is None else {"given": encode(dict(fact.given))}),
    }


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """Converts records into facts."""

    actions: Space
    contexts: Space
    classes: Sequence[Callable[..., Any]]
    references: list[Any] = field(default_factory=list)

    def read(self, record: dict[str, Any]) -> Fact | None:
        """Return the fact of a record; None if the record holds a reference for later records."""
        kind = record["kind"]
        if kind == "reference":
            self.references.append(decode(record["value"], self.classes))
            return None
        if kind == "asked":
            return self._asked(record)
        if kind == "told":
            return self._told(record)
        if kind == "cancelled":
            return Cancelled(_time(record), _count(record["number"]))
        if kind == "retracted":
            return Retracted(_time(record), _count(record["result"]))
        if kind == "amended":
            return Amended(_time(record), _count(record["result"]), *self._outcomes(record), _weights(record))
        if kind == "imported":
            raise TooOldError("holds results that were imported from drbo 0.1, which this version does not read")
        raise ValueError(f"it holds a record of the unknown kind {kind!r}, perhaps of a later version of drbo")

    def _asked(self, record: dict[str, Any]) -> Asked:
        proposals = tuple(
            Proposal(
                number=_count(p["number"]),
                action=_read_point(p["action"], self.actions),
                context=None if p["context"] is None else _read_point(p["context"], self.contexts),
                radius=_radius(p["radius"], unknown=True),
                score=_float(p["score"]),
                bound=_known(p["bound"] if "bound" in p else p["guarantee"]),
                further=self._further(p),
                loss=_loss(p.get("loss", 0.0)),
                fallback=p.get("fallback", False) is True,
                more_contexts=tuple(_read_point(context, self.contexts) for context in p.get("more_contexts", ())),
                reason=_reason(p),
            )
            for p in record["proposals"]
        )
        radius = None if record["radius"] is None else _radius(record["radius"])
        awaited = tuple(_count(number) for number in record.get("awaited", ()))
        given = decode(record.get("given"), self.classes)
        if not (given is None or (isinstance(given, dict) and given)):
            raise ValueError(f"it holds {given!r} where the known part of a context should be")
        return Asked(_time(record), self._reference(record), radius, self._fits(record), proposals, awaited, given)

    def _outcomes(self, record: dict[str, Any]) -> tuple[tuple[Point, ...], dict[str, Readings]]:
        contexts = tuple(_read_point(context, self.contexts) for context in record["contexts"])
        outcomes = _read_readings(record)
        expected, hidden = len(contexts), bool(_weights(record))
        for one in outcomes.values() if contexts else (NO_READINGS,):
            if not contexts or len(one.values) != (1 if hidden else expected):
                raise ValueError(f"it holds a result with {len(one.values)} outcomes in {expected} contexts")
        return contexts, outcomes

    def _told(self, record: dict[str, Any]) -> Told:
        contexts, outcomes = self._outcomes(record)
        number = None if record["number"] is None else _count(record["number"])
        action = _read_point(record["action"], self.actions)
        return Told(_time(record), number, action, contexts, outcomes, bool(record["drawn"]), _weights(record))

    def _further(self, record: dict[str, Any]) -> FloatArray:
        points = np.array(record["further"], dtype=float).reshape(-1, self.contexts.dimension)
        if not np.isfinite(points).all():
            raise ValueError("it holds further contexts that are not finite")
        return points

    def _reference(self, record: dict[str, Any]) -> Any:
        value = record["reference"]
        return self.references[_count(value)] if isinstance(value, int) else decode(value, self.classes)

    def _fits(self, record: dict[str, Any]) -> dict[str, Fit]:
        """Return the hyper-parameters by outcome; format 3 has those of the objective alone, or None."""
        given = record["fits"] if "fits" in record else {} if record["fit"] is None else {OBJECTIVE: record["fit"]}
        fits = {_known_name(name): decode(fit, self.classes) for name, fit in given.items()}
        for fit in fits.values():
            if not isinstance(fit, Fit):
                raise ValueError(f"it holds invalid hyper-parameters: {fit!r}")
        return fits


def _read_point(value: dict[str, Any], space: Space) -> Point:
    if "index" in value:
        return space.at("index", value["index"])
    if "value" in value:
        return space.encode("value", value["value"])
    return space.stored(np.array(value["at"], dtype=float))


def _read_readings(record: dict[str, Any]) -> dict[str, Readings]:
    """Return the values of each outcome by name; empty for a failure."""
    value = record["outcomes"]
    if isinstance(value, list):  # format 3
        stderrs = record.get("stderrs", [])
        value = {OBJECTIVE: {"values": value, "stderrs": stderrs}} if value or stderrs else {}
    found = {}
    for name, one in value.items():
        values = tuple(_finite(outcome) for outcome in one["values"])
        stderrs = tuple(_float(stderr) for stderr in one.get("stderrs", ()))
        if stderrs and (len(stderrs) != len(values) or not all(0.0 <= e < math.inf for e in stderrs)):
            raise ValueError(f"it holds {stderrs} as the standard errors of {len(values)} outcomes")
        found[_known_name(name)] = Readings(values, stderrs)
    return found


def _known_name(name: Any) -> str:
    """Return the name of an outcome; whether the optimizer has it is checked by the state."""
    if not isinstance(name, str):
        raise ValueError(f"it holds {name!r} instead of the name of an outcome")
    return name


def _weights(record: dict[str, Any]) -> tuple[float, ...]:
    """Return the distribution of a hidden context; empty if each outcome has its context."""
    weights = tuple(_float(weight) for weight in record.get("weights", ()))
    if not weights:
        return ()
    whole = len(weights) == len(record["contexts"]) and len(record["outcomes"]) >= 1
    if not (whole and all(w > 0.0 for w in weights) and abs(math.fsum(weights) - 1.0) <= 1e-6):
        raise ValueError(f"it holds {weights} as the distribution of a context that was not revealed")
    return weights


def _reason(record: dict[str, Any]) -> Reason:
    reason = record.get("reason", "search")
    if reason not in get_args(Reason):
        raise ValueError(f"it holds a suggestion for the unknown reason {reason!r}")
    return cast(Reason, reason)


def _loss(value: Any) -> float:
    loss = _float(value)
    if not 0.0 <= loss < math.inf:
        raise ValueError(f"it holds a loss of {loss}, which must be zero or more")
    return loss


def _float(value: Any) -> float:
    number = decode(value, ())
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"it holds {value!r} instead of a number")
    return float(number)


def _known(value: Any) -> float:
    number = _float(value)
    if math.isnan(number):
        raise ValueError("it holds nan instead of a number")
    return number


def _radius(value: Any, *, unknown: bool = False) -> float:
    """Return a radius; nan only if it may be `unknown`, as for a trial enqueued elsewhere."""
    number = _float(value)
    return number if unknown and math.isnan(number) else validation.radius(number)


def _finite(value: Any) -> float:
    number = _float(value)
    if not math.isfinite(number):
        raise ValueError(f"it holds {number} instead of a finite number")
    return number


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"it holds {value!r} instead of a count")
    return value


def _time(record: dict[str, Any]) -> float | None:
    return None if record["time"] is None else _finite(record["time"])
