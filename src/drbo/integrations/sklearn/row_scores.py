"""Scores that are means over rows, as one score per row.

The score of a mix of groups is the mix of the groups' scores only if the score is a mean over rows. Accuracy, log loss
and squared error are such means. AUC, R^2 and F1 are not: they compare rows with one another, or divide by a
quantity of the whole sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils import _safe_indexing

from drbo.validation import FloatArray

_REASON = "the score of a mix of groups is then not the mix of the groups' scores"
_SAME = 1e-5
"""Relative tolerance for a score to be the mean of the scores of its parts; models may predict in single precision."""
PARTS = 20
"""Number of parts per group whose scores show the standard error, for a scorer without scores of single rows."""


class NotAMeanError(ValueError):
    """The score is not a mean over rows."""


def _hits(estimator: Any, X: Any, y: Any) -> FloatArray:
    y, p = _alike(y, estimator.predict(X))
    hits = y == p
    return np.asarray(hits.reshape(len(hits), -1).all(axis=1), dtype=float)


def _log_loss(estimator: Any, X: Any, y: Any) -> FloatArray:
    p, at = _probabilities(estimator, X, y)
    least = np.finfo(p.dtype).eps
    p = np.clip(p, least, 1.0 - least)
    chosen = np.where(at < 0, least, np.take_along_axis(p, np.maximum(at, 0)[:, None], axis=1)[:, 0])
    return np.asarray(np.log(chosen), dtype=float)


def _brier(estimator: Any, X: Any, y: Any) -> FloatArray:
    p, at = _probabilities(estimator, X, y)
    target = at[:, None] == np.arange(p.shape[1])
    squares = ((p - target) ** 2).sum(axis=1) + (at < 0)  # a class that training did not see has probability 0
    return -np.asarray(squares / 2.0 if p.shape[1] <= 2 else squares, dtype=float)


def _probabilities(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, Any]:
    """Return the predicted probabilities (n, k), and the position (n,) of the true class; -1 if it was not trained."""
    classes = np.asarray(estimator.classes_)
    p, truth = np.asarray(estimator.predict_proba(X)), np.ravel(y)
    at = np.searchsorted(classes, truth)
    at = np.where(at < len(classes), at, 0)
    return p, np.where(classes[at] == truth, at, -1)


def _error(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], FloatArray]:
    def of(estimator: Any, X: Any, y: Any) -> FloatArray:
        truth, p = _alike(y, estimator.predict(X))
        losses = np.asarray(loss(truth.astype(float), p.astype(float)))
        return np.asarray(-losses.reshape(len(losses), -1).mean(axis=1))  # several outputs are averaged

    return of


def _alike(y: Any, predicted: Any) -> tuple[Any, Any]:
    """Return targets and predictions as arrays of one shape; one of them may be a column (n, 1)."""
    truth, p = np.asarray(y), np.asarray(predicted)
    return (truth, p) if truth.ndim == p.ndim else (truth.reshape(len(truth), -1), p.reshape(len(p), -1))


def _poisson(y: Any, p: Any) -> Any:
    if (p <= 0).any():
        raise ValueError("predictions must be positive for a Poisson deviance")
    return 2.0 * (np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0) / p), 0.0) - y + p)


_ROWS: dict[str, Callable[[Any, Any, Any], FloatArray]] = {
    "accuracy": _hits,
    "neg_log_loss": _log_loss,
    "neg_brier_score": _brier,
    "neg_mean_squared_error": _error(lambda y, p: (y - p) ** 2),
    "neg_mean_absolute_error": _error(lambda y, p: np.abs(y - p)),
    "neg_mean_absolute_percentage_error": _error(
        lambda y, p: np.abs(y - p) / np.maximum(np.abs(y), np.finfo(float).eps)
    ),
    "neg_mean_poisson_deviance": _error(_poisson),
}
"""The score of each row, by scikit-learn's name of the mean."""
_LEAST = {"accuracy": 0.0, "neg_brier_score": -1.0}
"""The worst score of a row, where there is one."""
_ALSO_MEANS = ("neg_mean_squared_log_error", "neg_mean_gamma_deviance", "top_k_accuracy")
"""Further means over rows, which are scored part by part."""


def _name(scorer: Any) -> str | None:
    """Return the name of a scorer that is written as one of scikit-learn's; None if none is."""
    written = repr(scorer)
    return next((name for name in get_scorer_names() if repr(get_scorer(name)) == written), None)


@dataclass(frozen=True, eq=False)
class RowScore:
    """A score that is a mean over rows.

    Attributes
    ----------
    name : the name of the score
    scorer : scikit-learn's scorer, for `score` and for scores of parts
    rows : the score of each row; None if only parts can be scored
    least : the worst score of a row; None if there is no limit
    """

    name: str
    scorer: Any
    rows: Callable[[Any, Any, Any], FloatArray] | None = None
    least: float | None = None

    @classmethod
    def of(cls, scoring: Any, kind: str | None) -> RowScore:
        """Return the checked scorer; `kind` of the estimator is "classifier", "regressor" or None."""
        if scoring is None:
            default = {"classifier": "accuracy", "regressor": "neg_mean_squared_error"}
            if kind not in default:
                raise TypeError("scoring must be given: the estimator is neither a classifier nor a regressor")
            scoring = default[kind]
        if isinstance(scoring, str) and scoring not in get_scorer_names():
            raise ValueError(f"scoring must be a name of sklearn.metrics.get_scorer_names(), got {scoring!r}")
        if not (isinstance(scoring, str) or callable(scoring)):
            raise TypeError(f"scoring must be one scorer: its name, or scorer(estimator, X, y), got {scoring!r}")
        name = scoring if isinstance(scoring, str) else _name(scoring)
        if name is None:
            return cls(getattr(scoring, "__name__", "score"), scoring)
        if not (name in _ROWS or name in _ALSO_MEANS or name.endswith("_samples")):
            raise NotAMeanError(
                f"scoring must be a mean over rows, and {name!r} is none: {_REASON}; expected one of "
                f"{', '.join(map(repr, _ROWS))}, or a scorer that is a mean over rows"
            )
        return cls(name, get_scorer(name) if isinstance(scoring, str) else scoring, _ROWS.get(name), _LEAST.get(name))

    def of_units(self, estimator: Any, X: Any, y: Any, units: Any, weights: Any, arguments: dict[str, Any]) -> Any:
        """Return the score and the weight of each row, or of each part of the rows.

        `units` (n,) says to which part a row belongs, and `weights` (n,) how much it counts. The answer is two arrays
        (k,), and for each entry the position of one of its rows.
        """
        if self.rows is not None:
            return self.rows(estimator, X, y), weights, np.arange(len(units))
        names, first, part = np.unique(units, return_index=True, return_inverse=True)
        masses = np.bincount(part, weights)
        whole = self._scalar(estimator, X, y, arguments)
        values = np.full(len(names), np.nan)
        if np.isfinite(whole):
            reason = f"scoring must be a mean over rows, and {self.name!r} is none: {_REASON}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # AUC warns of parts with one class
                try:
                    for i in range(len(names)):
                        at = np.flatnonzero(part == i)
                        own = {name: _safe_indexing(value, at) for name, value in arguments.items()}
                        part_of_y = None if y is None else _safe_indexing(y, at)
                        values[i] = self._scalar(estimator, _safe_indexing(X, at), part_of_y, own)
                except ValueError as error:
                    raise NotAMeanError(f"{reason} (on a part of the rows: {error})") from error
            mean = float(values @ masses / masses.sum())
            if not abs(mean - whole) <= _SAME * (np.abs(values).max() + abs(whole)):
                raise NotAMeanError(f"{reason} ({whole:.6g} on all rows, and {mean:.6g} as the mean of its parts)")
        return values, masses, first

    def _scalar(self, estimator: Any, X: Any, y: Any, arguments: dict[str, Any]) -> float:
        returned = self.scorer(estimator, X, **arguments) if y is None else self.scorer(estimator, X, y, **arguments)
        if np.ndim(returned) != 0 or isinstance(returned, dict):
            raise NotAMeanError(f"scoring must return one number, got {type(returned).__name__} from {self.name!r}")
        return float(returned)
