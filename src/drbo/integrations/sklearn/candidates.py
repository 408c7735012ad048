"""One candidate: what its fits showed, how they are run, and how a file keeps them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

import drbo
from drbo._files import append, locked, write_atomically
from drbo._messages import printable
from drbo.integrations.sklearn.row_scores import NotAMeanError, RowScore
from drbo.validation import path as checked_path


@dataclass(frozen=True, eq=False)
class Task:
    """The data of all fits.

    Attributes
    ----------
    score : the score of rows
    fit_arguments, score_arguments : further arguments of the estimator's `fit`, and of the scorer
    groups : (n_rows,) the group of each row; None if each fold is a group
    clusters : (n_rows,) rows of one cluster are dependent
    parts : (n_rows,) the rows that a scorer scores together, if it does not score single rows
    weights : (n_rows,) how much a row counts
    pairwise : whether X holds similarities of rows
    raises : whether the error of a fit is raised
    """

    X: Any
    y: Any
    score: RowScore
    fit_arguments: dict[str, Any]
    score_arguments: dict[str, Any]
    groups: Any
    clusters: Any
    parts: Any
    weights: Any
    pairwise: bool
    raises: bool


@dataclass(frozen=True, eq=False)
class Fold:
    """What one fit showed on the test rows of its fold.

    Attributes
    ----------
    values, weights, groups, clusters : (k,) one entry per row, or per part of the rows
    fit_time, score_time : in seconds
    error : the error that ended the fit, as text; None if it succeeded
    """

    values: Any
    weights: Any
    groups: Any
    clusters: Any
    fit_time: float
    score_time: float
    error: str | None = None


@dataclass(frozen=True)
class Candidate:
    """The scores of one candidate.

    Attributes
    ----------
    action : the searched hyper-parameters
    mean, stderr : the mean score of each group, and its standard error over its rows; None if the candidate failed
    folds : the mean score of each fold
    fit_times, score_times : of each fold, in seconds
    error : why a fit failed; None if all succeeded
    """

    action: dict[str, Any]
    mean: list[float] | None
    stderr: list[float] | None
    folds: list[float]
    fit_times: list[float]
    score_times: list[float]
    error: str | None = None


def fit_and_score(task: Task, estimator: Any, values: Mapping[str, Any], fold: int, train: Any, test: Any) -> Fold:
    """Return what the estimator with these hyper-parameters shows on the test rows of a fold."""
    empty, scored = np.empty(0), 0.0
    start = fitted = time.perf_counter()
    try:
        model = clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in values.items()})
        target = () if task.y is None else (_safe_indexing(task.y, train),)
        model.fit(_part(task, train, train), *target, **rows_of(task.fit_arguments, task.X, train))
        fitted = time.perf_counter()
        shown, mass, at = task.score.of_units(
            model,
            _part(task, test, train),
            None if task.y is None else _safe_indexing(task.y, test),
            task.parts[test],
            task.weights[test],
            rows_of(task.score_arguments, task.X, test),
        )
        scored = time.perf_counter()
        if not np.isfinite(shown).all():
            raise ValueError("the score of a row is not finite")
    except NotAMeanError:
        raise
    except Exception as error:
        if task.raises:
            raise
        now = time.perf_counter()
        text = f"{type(error).__name__}: {error}"
        return Fold(empty, empty, empty, empty, now - start, max(scored - fitted, 0.0), text)
    rows = np.asarray(test)[at]
    groups = np.full(len(rows), fold) if task.groups is None else task.groups[rows]
    clusters = task.clusters[rows] if task.score.rows is not None else task.parts[rows]
    return Fold(shown, mass, groups, clusters, fitted - start, scored - fitted)


def _part(task: Task, rows: Any, columns: Any) -> Any:
    """Return the rows of X; of similarities, only those with the rows that were trained on."""
    part = _safe_indexing(task.X, rows)
    return _safe_indexing(part, columns, axis=1) if task.pairwise else part


def rows_of(arguments: Mapping[str, Any], X: Any, rows: Any) -> dict[str, Any]:
    """Return further arguments for some rows: those with one entry per row are indexed."""
    return {
        name: _safe_indexing(value, rows) if _per_row(value, _num_samples(X)) else value
        for name, value in arguments.items()
    }


def _per_row(value: Any, n_rows: int) -> bool:
    if isinstance(value, str | bytes | Mapping) or not (hasattr(value, "__len__") or hasattr(value, "shape")):
        return False
    try:
        return bool(_num_samples(value) == n_rows)
    except TypeError:
        return False


class Journal:
    """A file with one line per finished candidate, from which a killed search goes on.

    The first line says what is searched. Every further line has the scores of a candidate, and the facts that the
    optimizer has gained since the line before.
    """

    def __init__(self, path: Any, search: Mapping[str, Any]) -> None:
        self._path: Path | None = None if path is None else checked_path("resume", path)
        self._search, self._facts = dict(search), 0

    def begin(self, opt: drbo.Optimizer) -> list[Candidate]:
        """Return the candidates of the file, whose facts the optimizer takes over; write the first line if it is new."""
        if self._path is None:
            return []
        head = json.dumps(self._search, sort_keys=True)
        with locked(self._path):
            if not self._path.exists() or not self._path.stat().st_size:
                write_atomically(self._path, head + "\n")
                return []
            text = self._path.read_text(encoding="utf-8")
            lines = text.split("\n")
            if lines.pop():  # a crash cut the last line
                write_atomically(self._path, "".join(line + "\n" for line in lines))
        name = printable(self._path)
        try:
            found, *rest = [json.loads(line) for line in lines]
            shown = [line["candidate"] for line in rest]
            records = [record for line in rest for record in line["facts"]]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"resume={name!r} is not a file of a search: {error}") from None
        if different := [key for key in self._search if found.get(key) != json.loads(head)[key]]:
            raise ValueError(
                f"resume={name!r} holds another search, which differs in {', '.join(different)}: give another file"
            )
        opt.replay(records)
        self._facts = len(records)
        actions = {result.id: result.action for result in opt.results}.values()
        return [Candidate(action, **one) for action, one in zip(actions, shown, strict=True)]

    def add(self, opt: drbo.Optimizer, candidate: Candidate) -> None:
        """Append a candidate; it is on the disk when this returns."""
        if self._path is None:
            return
        facts = opt.records(self._facts)
        shown = {name: value for name, value in asdict(candidate).items() if name != "action"}  # the facts have it
        line = json.dumps({"candidate": shown, "facts": facts})
        with locked(self._path):
            append(self._path, line + "\n")
        self._facts += len(facts)


def failures(candidates: Sequence[Candidate]) -> str:
    """Return the errors of failed candidates as text, the most frequent first."""
    errors: dict[str, int] = {}
    for one in candidates:
        if one.error is not None:
            errors[one.error] = errors.get(one.error, 0) + 1
    ordered = sorted(errors.items(), key=lambda item: -item[1])
    return "; ".join(f"{count} of {len(candidates)}: {printable(text)}" for text, count in ordered[:3])
