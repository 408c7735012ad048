"""What a search says: the table `cv_results_`, the summary in words, and a line of progress."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from drbo._messages import printable
from drbo.integrations.sklearn.candidates import ScoredCandidate
from drbo.integrations.sklearn.context_groups import Groups
from drbo.integrations.sklearn.hyperparameters import Hyperparameters


def table_of(
    search: Any, space: Hyperparameters, groups: Groups, candidates: list[ScoredCandidate], bounds: Any
) -> dict[str, Any]:
    """Return `cv_results_`."""
    rows = [space.values(one.action) for one in candidates]
    table: dict[str, Any] = {}
    for what, of in (("fit", "fit_times"), ("score", "score_times")):
        times = np.array([getattr(one, of) for one in candidates])
        table[f"mean_{what}_time"], table[f"std_{what}_time"] = times.mean(axis=1), times.std(axis=1)
    for name in rows[0]:
        column = np.ma.MaskedArray(np.empty(len(rows)), mask=False, dtype=object)
        for i, row in enumerate(rows):
            column[i] = row[name]
        table[f"param_{name}"] = column
    table["params"] = rows
    folds = np.array([one.folds for one in candidates])
    for i, scores in enumerate(folds.T):
        table[f"split{i}_test_score"] = scores
    none = [math.nan] * len(groups.contexts)
    means, errors = (np.array([getattr(one, of) or none for one in candidates]) for of in ("mean", "stderr"))
    worst = search.recommendation_
    order = [groups.contexts.index(context) for context in worst.contexts]
    table["mean_test_score"] = means[:, order] @ worst.reference
    table["std_test_score"] = folds.std(axis=1)
    for i, name in enumerate(groups.names):
        table[f"mean_score_{name}"], table[f"stderr_score_{name}"] = means[:, i], errors[:, i]
    placed = search.optimizer_.configuration.placed
    table["worst_test_score"] = np.array(
        [
            math.nan
            if np.isnan(row).any()
            else placed.worst_case(row[order], worst.reference, worst.radius).expectation
            for row in means
        ]
    )
    table["bound_test_score"] = bounds
    filled = np.where(np.isnan(bounds), -np.inf, bounds)
    table["rank_test_score"] = np.array([1 + int((filled > one).sum()) for one in filled], dtype=np.int32)
    return table


def in_words(search: Any, name: str) -> str:
    """Return the summary of a search by the score of this name."""
    worst, table = search.recommendation_, search.cv_results_
    best, plain, names = search.best_index_, search.plain_index_, Groups(search.contexts_, None, {}).names
    loss = name.startswith("neg_")
    sign, what = (-1.0, printable(name[4:].replace("_", " "))) if loss else (1.0, printable(name.replace("_", " ")))
    lines = [
        f"in every distribution {worst.set_words} the {what} is {'at most' if loss else 'at least'} "
        f"{sign * search.best_score_:.4g} (estimated)",
        "group: share now, share in the worst mix, score of the robust best, of the plain best",
    ]
    for context, p, w in zip(worst.contexts, worst.reference, worst.weights, strict=True):
        group = names[search.contexts_.index(context)]
        mean, error = (table[f"{column}_score_{group}"] for column in ("mean", "stderr"))
        binds = "  <- binds" if w > p + 1e-9 else ""
        lines.append(
            f"  {printable(group)}: {p:.1%}, {w:.1%}, {sign * mean[best]:.4g} (standard error {error[best]:.2g}), "
            f"{sign * mean[plain]:.4g}{binds}"
        )
    for title, column in (("present mix", "mean_test_score"), ("worst mix", "worst_test_score")):
        ours, theirs = (sign * table[column][i] for i in (best, plain))
        lines.append(f"on the {title}: {ours:.4g}, and {theirs:.4g} of the plain best")
    return "\n".join(lines)


class TableLine:
    """A line of progress on stderr, overwritten on a terminal."""

    def __init__(self, shown: bool, wanted: int) -> None:
        self._shown, self._wanted, self._width = shown, wanted, 0

    def show(self, candidates: list[ScoredCandidate], last: str = "") -> None:
        """Write the numbers of finished and failed candidates, and the end of the line."""
        if not self._shown:
            return
        done, failed = len(candidates), sum(one.error is not None for one in candidates)
        bar = "#" * (20 * done // self._wanted)
        text = f"drbo: [{bar:<20}] {done} of {self._wanted} candidates" + (f" ({failed} failed)" if failed else "")
        text += f", {last}" if last else ""
        terminal = sys.stderr.isatty()
        sys.stderr.write(("\r" + text.ljust(self._width) + ("\n" if last else "")) if terminal else text + "\n")
        sys.stderr.flush()
        self._width = len(text)
