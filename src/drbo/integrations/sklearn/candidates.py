"""Candidates of a search: their folds, their scores, the next ones, and their bounds."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
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
from drbo.integrations.sklearn.context_groups import Groups
from drbo.integrations.sklearn.hyperparameters import Hyperparameters, key
from drbo.integrations.sklearn.row_scores import NotAMeanError, RowScore
from drbo.validation import FloatArray
from drbo.validation import path as checked_path


@dataclass(frozen=True, eq=False)
class FitTask:
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
class FoldScores:
    """What one fit showed on the test rows of its fold: an entry per row or part (k,), seconds, and any error."""

    values: Any
    weights: Any
    groups: Any
    clusters: Any
    fit_time: float
    score_time: float
    error: str | None = None


@dataclass(frozen=True)
class ScoredCandidate:
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


def fit_and_score(
    task: FitTask, estimator: Any, values: Mapping[str, Any], fold: int, train: Any, test: Any
) -> FoldScores:
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
        return FoldScores(empty, empty, empty, empty, now - start, max(scored - fitted, 0.0), text)
    rows = np.asarray(test)[at]
    groups = np.full(len(rows), fold) if task.groups is None else task.groups[rows]
    clusters = task.clusters[rows] if task.score.rows is not None else task.parts[rows]
    return FoldScores(shown, mass, groups, clusters, fitted - start, scored - fitted)


def _part(task: FitTask, rows: Any, columns: Any) -> Any:
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


def failures(candidates: Sequence[ScoredCandidate]) -> str:
    """Return the errors of failed candidates as text, the most frequent first."""
    errors: dict[str, int] = {}
    for one in candidates:
        if one.error is not None:
            errors[one.error] = errors.get(one.error, 0) + 1
    ordered = sorted(errors.items(), key=lambda item: -item[1])
    return "; ".join(f"{count} of {len(candidates)}: {printable(text)}" for text, count in ordered[:3])


def chosen_next(
    opt: drbo.Optimizer,
    space: Hyperparameters,
    candidates: list[ScoredCandidate],
    design: list[dict[str, Any]],
    count: int,
    seed: int,
) -> list[tuple[dict[str, Any], Any]]:
    """Return the next candidates, each with its suggestion; none is fitted twice. The first are well spread."""
    seen = {key(one.action) for one in candidates}
    waiting = list(opt.pending)
    chosen: list[tuple[dict[str, Any], Any]] = []
    while len(chosen) < count:
        number = len(candidates) + len(chosen)
        if waiting:
            suggestion = waiting.pop(0)
        elif number < len(design):
            suggestion = None
        else:
            suggestion = opt.ask()
        action = design[number] if suggestion is None else suggestion.action
        if key(action) in seen:
            if suggestion is not None:
                opt.cancel(suggestion)
            fresh = space.unseen(seen, seed + number)
            assert fresh is not None  # there are at most as many candidates as different actions
            action, suggestion = fresh, None
        seen.add(key(action))
        chosen.append((action, suggestion))
    return chosen


def sizes(task: FitTask, splits: list[Any], groups: Groups) -> tuple[list[int], Any]:
    """Return the number of clusters and the weight of the test rows of each group; raise if either is too small."""
    tested = [np.asarray(test) for _, test in splits]
    if groups.of is None:
        members = tested
    else:
        rows = np.unique(np.concatenate(tested))
        members = [rows[groups.of[rows] == group] for group in range(len(groups.contexts))]
    units = task.clusters if task.score.rows is not None else task.parts
    counts = [len(np.unique(units[rows])) for rows in members]
    masses = np.array([task.weights[rows].sum() for rows in members])
    for name, count, mass in zip(groups.names, counts, masses, strict=True):
        if count < 2:
            raise ValueError(
                f"every group needs at least two independent rows for its standard error, but {name!r} has {count}; "
                "rows with the same value of groups= are not independent"
            )
        if not mass > 0.0:
            raise ValueError(f"sample_weight must give every group some weight, but {name!r} has none")
    return counts, masses


# --- bounds, lowered by the error of having these rows and no others -------------------------------------------------


_FAR = 10.0
"""The model sees scores down to so many times the usual difference below the best one."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """The bounds (n_candidates,) by an optimizer of outcomes lowered `by` (n_groups,); nan for a failure."""

    opt: drbo.Optimizer
    by: FloatArray
    bounds: FloatArray

    @property
    def best(self) -> int:
        """The position of the candidate with the largest bound."""
        return int(np.nanargmax(self.bounds))


def least_seen(candidates: Sequence[ScoredCandidate], n_spread: int) -> Any:
    """Return the least score (n_groups,) that the model sees; worse ones are told as this one.

    One candidate that diverges can be a hundred times as bad as all others, and a model of its score takes the
    differences between the others for noise. The usual difference is that between the best and the upper quartile of
    the first `n_spread` candidates, in the group where it is largest. So what a candidate gains in another group is
    small beside what it still loses.
    """
    shown = np.array([one.mean for one in candidates if one.mean is not None])
    spread = np.array([one.mean for one in candidates[:n_spread] if one.mean is not None])
    if len(candidates) < n_spread or len(spread) < 2:
        return -math.inf
    usual = float((spread.max(axis=0) - np.quantile(spread, 0.75, axis=0)).max())
    return shown.max(axis=0) - _FAR * usual if usual > 0.0 else -math.inf


def told(
    opt: drbo.Optimizer, groups: Groups, candidate: ScoredCandidate, suggestion: Any, least: Any, by: Any = 0.0
) -> None:
    """Tell an optimizer the mean scores of a candidate, at least `least`, lowered by `by`.

    `suggestion` is None if the candidate was not asked for.
    """
    of = candidate.action if suggestion is None else suggestion
    if candidate.mean is None:
        opt.tell(of, failed=True, contexts=list(groups.contexts))
    else:
        opt.tell(of, np.maximum(candidate.mean, least) - by, contexts=list(groups.contexts))


def _is_cut(candidate: ScoredCandidate, least: Any) -> bool:
    return candidate.mean is not None and bool((np.asarray(candidate.mean) < least).any())


def cut(opt: drbo.Optimizer, candidates: Sequence[ScoredCandidate], least: Any) -> None:
    """Amend the scores that were told before it was known that they are far worse than those of the others."""
    numbers = dict.fromkeys(result.id for result in opt.results)
    for number, candidate in zip(numbers, candidates, strict=True):
        if _is_cut(candidate, least):
            opt.amend(number, np.maximum(np.asarray(candidate.mean), least))


def lowered(
    make: Callable[[], drbo.Optimizer],
    groups: Groups,
    candidates: Sequence[ScoredCandidate],
    n_spread: int,
    widths: FloatArray,
) -> Bounded:
    """Return the bounds with outcomes that are lowered by `widths` standard errors of the best candidate.

    The error of having these rows is common to all candidates, so all are lowered by the same amount in a group, and
    it does not decide between candidates that have the same worst mix. If another candidate is best then, with larger
    standard errors, the larger ones count. So every bound that is printed is lowered by at least its own errors.

    Scores far below the best one are cut for the model, but never those of the best candidate.

    `make` makes a new optimizer. Its history has the same candidates in the same order as the search: the first
    `n_spread` were not asked for.
    """
    by, least = np.zeros(len(groups.contexts)), least_seen(candidates, n_spread)
    while True:
        opt = make()
        for number, candidate in enumerate(candidates):
            suggestion = None if number < n_spread else opt.ask(action=candidate.action)
            told(opt, groups, candidate, suggestion, least, by)
        made = Bounded(opt, by, _bounds(opt, groups, candidates, least, by))
        best = candidates[made.best]
        own = widths * np.asarray(best.stderr)
        if (own <= by).all() and not _is_cut(best, least):
            return made
        by, least = np.maximum(by, own), np.minimum(least, np.asarray(best.mean))


def _bounds(
    opt: drbo.Optimizer, groups: Groups, candidates: Sequence[ScoredCandidate], least: Any, by: FloatArray
) -> FloatArray:
    """Return the bound of each candidate; if its scores were cut, at most what they show by themselves."""
    question, placed = opt.under(), opt.configuration.placed
    bounds = np.full(len(candidates), np.nan)
    for i, one in enumerate(candidates):
        if one.error is not None:
            continue
        found = question.bound(one.action)
        bounds[i] = found.value
        if _is_cut(one, least):
            own = (np.asarray(one.mean) - by)[[groups.contexts.index(context) for context in found.contexts]]
            shown = placed.worst_case(own, found.reference, found.radius).expectation
            bounds[i] = min(found.value, float(shown))
    return bounds


class Journal:
    """A file with one line per finished candidate, from which a killed search continues.

    The first line says what is searched. Every further line has the scores of a candidate, and the facts that the
    optimizer has gained since the line before.
    """

    def __init__(self, path: Any, search: Mapping[str, Any]) -> None:
        self._path: Path | None = None if path is None else checked_path("resume", path)
        self._search, self._facts = dict(search), 0

    def begin(self, opt: drbo.Optimizer) -> list[ScoredCandidate]:
        """Return the candidates of the file, whose facts the optimizer takes over. A new file gets its first line."""
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
            found, *rest = [dict(json.loads(line)) for line in lines]
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
        return [ScoredCandidate(action, **one) for action, one in zip(actions, shown, strict=True)]

    def add(self, opt: drbo.Optimizer, candidate: ScoredCandidate) -> None:
        """Append a candidate; it is on the disk when this returns."""
        if self._path is None:
            return
        facts = opt.records(self._facts)
        shown = {name: value for name, value in asdict(candidate).items() if name != "action"}  # the facts have it
        line = json.dumps({"candidate": shown, "facts": facts})
        with locked(self._path):
            append(self._path, line + "\n")
        self._facts += len(facts)


def _text(value: Any) -> str:
    """Return how a value prints, without addresses: they differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def fingerprint(
    search: Any, space: Hyperparameters, task: FitTask, splits: list[Any], names: list[str]
) -> dict[str, Any]:
    """Return what must be equal for a search to continue from a file."""

    def digest(*parts: Any) -> str:
        made = hashlib.sha256()
        for part in parts:
            made.update(repr(None if part is None else np.asarray(part).tolist()).encode())
        return made.hexdigest()[:16]

    rows = [part for split in splits for part in split]
    return {
        "format": 1,
        "estimator": _text(clone(search.estimator)),
        "param_space": _text(space),
        "ambiguity": repr(search.ambiguity),
        "radius": None if search.radius is None else float(search.radius),
        "scoring": task.score.name,
        "z": float(search.z),
        "contexts": digest(names, task.groups),
        "y": digest(task.y),
        "folds": digest(*rows),
        "sample_weight": digest(task.weights),
        "shape of X": list(np.shape(task.X)),
    }
