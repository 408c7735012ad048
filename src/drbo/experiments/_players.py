"""One run of a method, by indices: an optimizer of drbo, or an ask-tell object of any library."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from drbo.experiments._methods import Method
from drbo.experiments._tasks import ForeignMethod, Task
from drbo.names import SettingName
from drbo.validation import FloatArray


class Player(Protocol):
    """A method in one run."""

    def ask(self) -> tuple[int, int | None]:
        """Return the index of an action, and that of a context if the method picks it."""

    def tell(self, outcome: float, context_index: int, limits: Mapping[str, float]) -> None:
        """Take the outcome of the last action, its context, and the outcomes of limits."""

    def recommended(self) -> int:
        """Return the index of the action that the method would deploy now."""

    def labels(self) -> tuple[str, ...]:
        """Return the label of each action under the constraint of the task."""


def player_of(method: Method | ForeignMethod, task: Task, seed: int) -> Player:
    """Return a method as it takes part in a run."""
    return _Optimizing(method, task, seed) if isinstance(method, Method) else _Asking(method, task, seed)


class _Optimizing:
    def __init__(self, method: Method, task: Task, seed: int) -> None:
        self._method, self._task, self._opt = method, task, method.optimizer(task, seed)
        self._terms: dict[str, Any] = {}
        if task.setting == SettingName.GENERAL:
            radius = method.robust_to(task.problem, task.aim)[1]
            self._terms = {"reference": task.problem.reference, "radius": radius}

    def ask(self) -> tuple[int, int | None]:
        self._asked = self._opt.ask(**self._terms)
        return int(self._asked.action_index), self._asked.context_index

    def tell(self, outcome: float, context_index: int, limits: Mapping[str, float]) -> None:
        where: dict[str, Any] = {"limits": dict(limits)} if limits else {}
        if self._asked.context_index is None:
            hidden = {"distribution": self._task.problem.reference}
            where |= hidden if self._method.hidden else {"context_index": context_index}
        self._opt.tell(self._asked, outcome, **where)

    def recommended(self) -> int:
        return self._method.recommended(self._opt, self._task)

    def labels(self) -> tuple[str, ...]:
        return self._opt.under(**self._terms).classify(self._task.constraint).labels


class _Asking:
    """An ask-tell object. An action or context between those of the problem is moved to the nearest one."""

    def __init__(self, method: ForeignMethod, task: Task, seed: int) -> None:
        self._name, self._task, self._session = method.name, task, method.session(task, seed)
        self._actions, self._outcomes = list[int](), list[float]()
        self._n_told = _positional(self._session.tell)

    def ask(self) -> tuple[int, int | None]:
        asked = self._session.ask()
        action, context = asked if isinstance(asked, tuple) and len(asked) == 2 else (asked, None)
        problem = self._task.problem
        if context is not None and not self._task.picks:
            raise ValueError(
                f"method {self._name!r} returned an action and a context, but nature picks the context in the "
                f"{self._task.setting} setting: ask must return the action alone"
            )
        self._actions.append(self._nearest("action", action, problem.actions))
        return self._actions[-1], None if context is None else self._nearest("context", context, problem.contexts)

    def tell(self, outcome: float, context_index: int, limits: Mapping[str, float]) -> None:
        self._outcomes.append(outcome)
        told = (outcome, self._task.problem.contexts[context_index], dict(limits))
        self._session.tell(*told[: self._n_told])

    def recommended(self) -> int:
        """Return what the object recommends, or otherwise the action of the best mean outcome."""
        recommend = getattr(self._session, "recommend", None)
        if recommend is not None:
            return self._nearest("action", recommend(), self._task.problem.actions)
        actions, outcomes = np.array(self._actions), np.array(self._outcomes)
        return int(max(dict.fromkeys(self._actions), key=lambda x: outcomes[actions == x].mean()))

    def labels(self) -> tuple[str, ...]:
        raise TypeError(f"method {self._name!r} labels no actions")

    def _nearest(self, what: str, given: Any, points: FloatArray) -> int:
        """Return the index of the point nearest to a value, in shares of the ranges."""
        try:
            value = np.asarray(given, dtype=float).reshape(-1)
        except (TypeError, ValueError):
            value = np.empty(0)
        if value.shape != points.shape[1:] or not np.isfinite(value).all():
            raise ValueError(
                f"method {self._name!r} must return {what}s of {points.shape[1]} number(s), got {given!r}; ask returns "
                "an action, or a tuple (action, context)"
            )
        ranges = np.ptp(points, axis=0)
        return int(np.argmin((((points - value) / np.where(ranges > 0.0, ranges, 1.0)) ** 2).sum(axis=1)))


def _positional(tell: Any) -> int:
    """Return how many of (outcome, context, limits) a function takes; the outcome alone if that cannot be told."""
    try:
        parameters = inspect.signature(tell).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 3
    return max(1, min(3, sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)))
