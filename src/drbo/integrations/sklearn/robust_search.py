"""Search for the hyper-parameters whose score is best in the worst mix of the groups."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

import drbo
from drbo.integrations.sklearn.candidates import (
    Bounded,
    FitTask,
    FoldScores,
    Journal,
    ScoredCandidate,
    chosen_next,
    cut,
    failures,
    fingerprint,
    fit_and_score,
    least_seen,
    lowered,
    sizes,
    told,
)
from drbo.integrations.sklearn.context_groups import Groups, Means, checked_z, widths
from drbo.integrations.sklearn.cv_table import TableLine, in_words, table_of
from drbo.integrations.sklearn.hyperparameters import Hyperparameters
from drbo.integrations.sklearn.row_scores import PARTS, RowScore
from drbo.validation import finite_array, flag, of_kind, whole_number

_RADIUS = 0.2
"""The default radius: a fifth of the rows may move to other groups."""
_BETA = 0.2
"""The width of the search. With the usual width of 2 a few dozen candidates go to the corners of the space."""


def _has(name: str) -> Callable[[Any], bool]:
    """Return a function that checks for a method of the best estimator; before `fit`, of the estimator."""

    def check(self: Any) -> bool:
        if not self.refit:
            raise AttributeError(f"{name} needs the best estimator: give refit=True")
        getattr(self.best_estimator_ if hasattr(self, "best_estimator_") else self.estimator, name)
        return True

    return check


def _delegated(name: str) -> Any:
    """Return a method that calls the method of the best estimator."""

    def method(self: Any, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(X)

    method.__name__ = name
    method.__doc__ = f"Return `{name}` of the best estimator for the rows of X."
    return available_if(_has(name))(method)


class RobustSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A search for hyper-parameters that survive a shift of the mix of groups.

    `fit(X, y, contexts=labels)` scores every candidate in each group of rows by cross-validation. A Gaussian process
    learns these scores, and picks the next candidate. The best candidate has the largest lower bound of its mean score
    in the worst mix of the groups that the ambiguity set allows. The bound is an estimate.

    Two errors count. The noise of refitting is learned by the model. The error of having these rows and no others does
    not shrink with further fits, and is common to all candidates. So the score of a group is lowered once, for all
    candidates alike, by `z` times the standard error of its mean over its rows, before the worst mix is taken. The
    standard error is that of the best candidate. Rows with the same value of `groups` count as dependent.

    Parameters
    ----------
    estimator : the scikit-learn estimator, or a pipeline
    param_space : the ranges by name, such as `{"alpha": drbo.Log(1e-4, 1.0), "clf__depth": (2, 12)}`. Two whole numbers
        are a range of whole numbers, a list has the choices, and a distribution of scipy.stats gives its range
    ambiguity : the set of mixes, such as `drbo.Shares(old=(0.1, 0.6))`; the default is `drbo.TotalVariation()`
    radius : the radius of the set. The default is the set's own radius if it has one; for `TotalVariation()` without
        `ambiguity` it is 0.2, which moves a fifth of the rows to other groups
    n_iter : the number of candidates; each is fitted once per fold
    scoring : the name of a score that is a mean over rows, or a scorer(estimator, X, y) that is one. The default is
        "accuracy" for classifiers and "neg_mean_squared_error" for regressors
    cv : the number of folds (5 by default), which hold the same share of each group and class; or a splitter
    bins : for a numeric `contexts`: the number of bins, or the edges between them; by column if there are several
    z : the number of standard errors by which each group's score is lowered. With 2 the bound is false more often on
        new rows (docs/evidence_selection.md)
    n_jobs : the number of processes, through joblib. The folds of a candidate run in parallel. If there are more
        processes than folds, several candidates do, and the search then depends on `n_jobs`
    refit : whether to fit the best candidate on all rows
    error_score : the score of a candidate whose fit fails, in all groups; "raise" to raise its error; NaN if it has
        no score
    verbose : whether to show a line of progress on stderr
    random_state : the seed of the search. For reproducible scores, the estimator needs its own

    Attributes
    ----------
    best_params_, best_index_ : the best candidate, and its row in `cv_results_`
    best_score_ : the bound of its score in the worst mix: `recommendation_.value`
    best_estimator_, refit_time_ : the best candidate fitted on all rows, and the seconds that it took
    plain_index_ : the candidate of the best mean score on the present mix
    cv_results_ : one row per candidate. Beside scikit-learn's columns: `mean_score_<group>` and `stderr_score_<group>`;
        `worst_test_score`, the worst mix of these means; `bound_test_score`, the model's lower bound in the worst mix,
        by which `rank_test_score` ranks
    recommendation_ : the bound of the best candidate in words, with the worst mix; print it
    profile_ : what robustness costs on the present mix, and what it brings, for several radii
    optimizer_ : the `drbo.Optimizer` of the bounds. An outcome is the mean score of a group minus its `lowered_by_`.
        Scores far below those of most candidates are cut there, so that one candidate that diverges does not hide the
        differences between the others
    lowered_by_ : (n_groups,) `z` standard errors of each group, in the order of `contexts_`
    scorer_, n_splits_, contexts_ : the scorer, the number of folds, and the groups
    """

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"resume": UNUSED}

    def __init__(
        self,
        estimator: Any,
        param_space: Any,
        *,
        ambiguity: drbo.AmbiguitySet | None = None,
        radius: float | None = None,
        n_iter: int = 40,
        scoring: Any = None,
        cv: Any = None,
        bins: Any = None,
        z: float = 3.0,
        n_jobs: int | None = None,
        refit: bool = True,
        error_score: Any = np.nan,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_space = param_space
        self.ambiguity = ambiguity
        self.radius = radius
        self.n_iter = n_iter
        self.scoring = scoring
        self.cv = cv
        self.bins = bins
        self.z = z
        self.n_jobs = n_jobs
        self.refit = refit
        self.error_score = error_score
        self.verbose = verbose
        self.random_state = random_state

    # --- the search -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, contexts: Any = None, resume: Any = None, **params: Any) -> RobustSearchCV:
        """Search, and return the search itself.

        Parameters
        ----------
        X, y : the rows, and their targets
        contexts : the group of each row: one label per row; a table with several columns, whose combinations are the
            groups; or "folds", the default: robust to which rows come
        resume : a file that keeps every finished candidate. A search with the same arguments and rows continues from it
        params : `groups` for the splitter, `sample_weight` for estimator and scores, and further arguments of the
            estimator's `fit`. With scikit-learn's metadata routing they go to the objects that request them
        """
        X, y = indexable(X, y)
        n_iter, z = whole_number("n_iter", self.n_iter, least=1), checked_z(self.z)
        flag("refit", self.refit)
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        space = Hyperparameters.of(self.param_space, self.estimator.get_params(deep=True))
        score = self._score()
        for_fit, for_split, for_score = self._routed({k: v for k, v in params.items() if v is not None})
        n_rows = _num_samples(X)
        labelled = contexts is not None and not (isinstance(contexts, str) and contexts == "folds")
        groups = Groups.read(contexts, self.bins, n_rows) if labelled else None
        splitter = self._splitter(y, groups)
        splits = list(splitter.split(X, y, **for_split))
        groups = Groups.folds(len(splits)) if groups is None else groups
        groups.check(splits)
        task = self._task(X, y, score, groups, for_fit, for_split, for_score)
        counts, masses = sizes(task, splits, groups)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        make = functools.partial(self._optimizer, space, groups, masses, seed)
        opt = make()
        journal = Journal(resume, fingerprint(self, space, task, splits, groups.names))

        candidates = journal.begin(opt)
        wanted = int(min(n_iter, space.count))
        design = space.spread(min(max(wanted // 4, 2), 2 * len(space.box.parameters) + 2), seed)
        at_once = max(1, effective_n_jobs(self.n_jobs) // len(splits))
        line = TableLine(bool(self.verbose), wanted)
        with Parallel(n_jobs=self.n_jobs) as parallel:
            while len(candidates) < wanted:
                chosen = chosen_next(opt, space, candidates, design, min(at_once, wanted - len(candidates)), seed)
                folds = parallel(
                    delayed(fit_and_score)(task, self.estimator, space.values(action), i, train, test)
                    for action, _ in chosen
                    for i, (train, test) in enumerate(splits)
                )
                for (action, suggestion), j in zip(chosen, range(0, len(folds), len(splits)), strict=True):
                    made = self._candidate(action, folds[j : j + len(splits)], score, len(groups.contexts))
                    candidates.append(made)
                    least = least_seen(candidates, len(design))
                    told(opt, groups, made, suggestion, least)
                    if len(candidates) == len(design):
                        cut(opt, candidates, least)
                    journal.add(opt, made)
                line.show(candidates)
        if all(one.error is not None for one in candidates):
            self._raise_failure(task, space, candidates, splits)
        bounded = lowered(make, groups, candidates, len(design), widths(z, counts))
        self._conclude(bounded, space, candidates)
        self.cv_results_ = table_of(self, space, groups, candidates, bounded.bounds)
        self.plain_index_ = int(np.nanargmax(self.cv_results_["mean_test_score"]))
        line.show(candidates, f"score at least {self.best_score_:.4g} in the worst mix (estimated)")
        self.scorer_, self.n_splits_, self.contexts_ = score.scorer, len(splits), groups.contexts
        if self.refit:
            self._refit(X, y, for_fit)
        return self

    def _score(self) -> RowScore:
        kind = "classifier" if is_classifier(self.estimator) else "regressor" if is_regressor(self.estimator) else None
        if not (isinstance(self.error_score, numbers.Real) or self.error_score == "raise"):
            raise ValueError(f"error_score must be a number, NaN or 'raise', got {self.error_score!r}")
        return RowScore.of(self.scoring, kind)

    def _routed(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the arguments of the estimator's `fit`, of the splitter and of the scorer."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **params)
            return dict(routed.estimator.fit), dict(routed.splitter.split), dict(routed.scorer.score)
        weights = {"sample_weight": params["sample_weight"]} if "sample_weight" in params else {}
        rest = {name: value for name, value in params.items() if name != "groups"}
        return rest, {"groups": params.get("groups")}, weights

    def _splitter(self, y: Any, groups: Groups | None) -> Any:
        """Return the splitter; a number of folds keeps the share of each group and class."""
        classes = is_classifier(self.estimator)
        n_splits = 5 if self.cv is None else self.cv
        if groups is None or not isinstance(n_splits, numbers.Integral):
            return check_cv(self.cv, y, classifier=classes)
        stratified = classes and y is not None and type_of_target(y) in ("binary", "multiclass")
        return groups.split(whole_number("cv", n_splits, least=2), y if stratified else None)

    def _task(
        self,
        X: Any,
        y: Any,
        score: RowScore,
        groups: Groups,
        for_fit: dict[str, Any],
        for_split: dict[str, Any],
        for_score: dict[str, Any],
    ) -> FitTask:
        n_rows = _num_samples(X)
        weights = np.ones(n_rows)
        if "sample_weight" in for_score:
            weights = finite_array("sample_weight", for_score["sample_weight"], ndim=1)
            if len(weights) != n_rows or (weights < 0.0).any():
                raise ValueError(f"sample_weight must hold {n_rows} numbers of at least zero, one per row")
        clusters = np.arange(n_rows)
        if groups.of is not None and for_split.get("groups") is not None:
            clusters = np.unique(np.asarray(for_split["groups"]), return_inverse=True)[1].ravel()
        parts = clusters % PARTS + PARTS * (0 if groups.of is None else groups.of)
        return FitTask(
            X=X,
            y=y,
            score=score,
            fit_arguments=for_fit,
            score_arguments=for_score,
            groups=groups.of,
            clusters=clusters,
            parts=parts,
            weights=weights,
            pairwise=bool(get_tags(self.estimator).input_tags.pairwise),
            raises=isinstance(self.error_score, str),
        )

    def _optimizer(self, space: Hyperparameters, groups: Groups, masses: Any, seed: int) -> drbo.Optimizer:
        of_kind(
            "ambiguity", self.ambiguity, (drbo.AmbiguitySet, type(None)), "a set such as drbo.Shares(old=(0.1, 0.6))"
        )
        ambiguity = drbo.TotalVariation() if self.ambiguity is None else self.ambiguity
        radius = _RADIUS if self.ambiguity is None and self.radius is None else self.radius
        problem = groups.problem(masses, radius)
        return drbo.Optimizer(space.box, ambiguity=ambiguity, beta=_BETA, seed=seed, **problem)

    def _candidate(
        self, action: dict[str, Any], folds: list[FoldScores], score: RowScore, n_groups: int
    ) -> ScoredCandidate:
        """Return what the folds of a candidate showed."""
        times = [one.fit_time for one in folds], [one.score_time for one in folds]
        means = [float(one.values @ one.weights / one.weights.sum()) if len(one.values) else math.nan for one in folds]
        error = next((one.error for one in folds if one.error is not None), None)
        if error is None:
            values, weights, at, clusters = (
                np.concatenate([getattr(one, name) for one in folds])
                for name in ("values", "weights", "groups", "clusters")
            )
            shown = Means.of(values, weights, at, clusters, score.least)
            return ScoredCandidate(action, shown.mean.tolist(), shown.stderr.tolist(), means, *times)
        if math.isfinite(self.error_score):
            value = float(self.error_score)
            return ScoredCandidate(action, [value] * n_groups, [0.0] * n_groups, [value] * len(folds), *times, error)
        return ScoredCandidate(action, None, None, means, *times, error)

    def _raise_failure(
        self, task: FitTask, space: Hyperparameters, candidates: list[ScoredCandidate], splits: list[Any]
    ) -> None:
        """Fit the first candidate once more, to raise its error as it is: all candidates failed."""
        said = f"all {len(candidates)} candidates failed: {failures(candidates)}"
        try:
            for i, (train, test) in enumerate(splits):
                values = space.values(candidates[0].action)
                fit_and_score(dataclasses.replace(task, raises=True), self.estimator, values, i, train, test)
        except Exception as error:
            error.add_note(said)
            raise
        raise ValueError(said)

    def _conclude(self, bounded: Bounded, space: Hyperparameters, candidates: list[ScoredCandidate]) -> None:
        """Set the best candidate and its bound."""
        if n_failed := sum(one.error is not None for one in candidates):
            warnings.warn(
                f"{n_failed} of {len(candidates)} candidates failed, and count as error_score={self.error_score}. "
                f"{failures(candidates)}",
                FitFailedWarning,
                stacklevel=3,
            )
        self.optimizer_, self.lowered_by_ = bounded.opt, bounded.by
        self.best_index_ = bounded.best
        self.best_score_ = float(bounded.bounds[bounded.best])
        self._best_action = candidates[bounded.best].action
        self.best_params_ = space.values(self._best_action)

    def _refit(self, X: Any, y: Any, arguments: dict[str, Any]) -> None:
        start = time.perf_counter()
        values = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
        self.best_estimator_ = clone(self.estimator).set_params(**values)
        self.best_estimator_.fit(X, *(() if y is None else (y,)), **arguments)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    # --- answers ----------------------------------------------------------------------------------------------------

    @property
    def recommendation_(self) -> drbo.analysis.Recommendation:
        """The bound of the best candidate in the worst mix, with this mix; print it."""
        self._check_searched("recommendation_")
        return self.optimizer_.under().bound(self._best_action)

    @property
    def profile_(self) -> drbo.analysis.RadiusProfile:
        """The price of robustness on the present mix, and its gain in the worst, for radii up to twice the set's."""
        self._check_searched("profile_")
        question, radius = self.optimizer_.under(), self.recommendation_.radius
        return question.profile([0.0, 0.05, 0.1, 0.2] if radius == 0.0 else [0.0, radius / 2.0, radius, 2.0 * radius])

    def _check_searched(self, name: str) -> None:
        if not hasattr(self, "optimizer_"):
            raise AttributeError(f"{name} needs a search: call fit first")

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page about the search; return its path. Outcomes are lowered by `lowered_by_`."""
        check_is_fitted(self, "optimizer_")
        return self.optimizer_.report(path, title)

    def summary(self) -> str:
        """Return the bound in words, the score of every group, and what robustness costs on the present mix."""
        check_is_fitted(self, "optimizer_")
        return in_words(self, self._score().name)

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score of the best estimator: that of `scoring`, or its own if `scoring` is None."""
        _has("fit")(self)
        check_is_fitted(self, "best_estimator_")
        if get_config()["enable_metadata_routing"]:
            params = dict(process_routing(self, "score", **params).scorer.score)
        if self.scoring is None:
            return float(self.best_estimator_.score(X, y, **params))
        return float(self.scorer_(self.best_estimator_, X, y, **params))

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    predict_log_proba = _delegated("predict_log_proba")
    decision_function = _delegated("decision_function")
    score_samples = _delegated("score_samples")
    transform = _delegated("transform")
    inverse_transform = _delegated("inverse_transform")

    @property
    def classes_(self) -> Any:
        """The classes of the best estimator."""
        _has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("n_features_in_ needs the best estimator: call fit first, with refit=True")
        return int(self.best_estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata requests of estimator, scorer and splitter; the search itself uses `contexts`."""
        mapping = MethodMapping
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=mapping().add(caller="fit", callee="fit"))
        scores = mapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        router.add(scorer=self._score().scorer, method_mapping=scores)
        splits = mapping().add(caller="fit", callee="split")
        return router.add(splitter=check_cv(self.cv, classifier=is_classifier(self.estimator)), method_mapping=splits)
