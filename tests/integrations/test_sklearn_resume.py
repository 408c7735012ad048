"""Searches that go on from a file, and bad input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="drbo[sklearn] is not installed")

from joblib import parallel_config
from scipy.stats import loguniform, norm
from sklearn.cluster import KMeans
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold

import drbo
from drbo.integrations.sklearn import RobustSearchCV

RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 2))
Y = (X[:, 0] + 0.5 * RNG.normal(size=80) > 0).astype(int)
AGE = np.where(np.arange(80) % 5 < 2, "old", "young")


class Killed(BaseException):
    """Ends the process, as it were."""


class Counted(LogisticRegression):  # type: ignore[misc]
    """Counts its fits, and ends the process at one of them."""

    fits = 0
    last = 10**9

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Counted":
        Counted.fits += 1
        if Counted.fits > Counted.last:
            raise Killed
        super().fit(X, y, sample_weight)
        return self


def search(**arguments: Any) -> RobustSearchCV:
    space = {"C": drbo.Log(1e-3, 10.0), "class_weight": [None, "balanced"]}
    given = {"ambiguity": drbo.Shares(old=(0.1, 0.6)), "n_iter": 7, "scoring": "neg_log_loss", "cv": 2}
    return RobustSearchCV(Counted(), random_state=0, **{"param_space": space, **given, **arguments})


@pytest.fixture(autouse=True)
def _alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "fits", 0)
    monkeypatch.setattr(Counted, "last", 10**9)


def same(one: RobustSearchCV, other: RobustSearchCV) -> bool:
    columns = [name for name in one.cv_results_ if "time" not in name and name != "params"]
    return one.best_params_ == other.best_params_ and all(
        np.array_equal(one.cv_results_[name], other.cv_results_[name]) for name in columns
    )


def test_a_search_with_distributions_goes_on_in_another_process(tmp_path: Path) -> None:
    def first(high: float = 10.0, n_iter: int = 4) -> RobustSearchCV:
        """A distribution prints with its address, which differs between processes."""
        return search(param_space={"C": loguniform(1e-3, high), "solver": ["lbfgs"]}, n_iter=n_iter)

    file = tmp_path / "search.json"
    before = first().fit(X, Y, contexts=AGE, resume=file)
    Counted.fits = 0
    after = first(n_iter=6).fit(X, Y, contexts=AGE, resume=file)
    assert Counted.fits == 2 * 2 + 1  # two further candidates, and the best one on all rows
    assert after.cv_results_["params"][:4] == before.cv_results_["params"]
    with pytest.raises(ValueError, match="differs in param_space"):
        first(high=5.0).fit(X, Y, contexts=AGE, resume=file)


@pytest.mark.parametrize("last", [0, 1, 5, 12])
def test_a_killed_search_loses_the_fits_under_way(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search().fit(X, Y, contexts=AGE)
    file = tmp_path / "search.json"
    Counted.fits = 0
    monkeypatch.setattr(Counted, "last", last)
    with pytest.raises(Killed):
        search().fit(X, Y, contexts=AGE, resume=file)
    Counted.fits = 0
    monkeypatch.setattr(Counted, "last", 10**9)
    resumed = search().fit(X, Y, contexts=AGE, resume=file)
    assert same(whole, resumed)
    assert Counted.fits == 2 * (7 - last // 2) + 1
    assert resumed.cv_results_["params"] == whole.cv_results_["params"]  # None is not "None"


def test_a_finished_search_goes_on_with_more_candidates(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    search(n_iter=8).fit(X, Y, contexts=AGE, resume=file)
    Counted.fits = 0
    more = search(n_iter=10).fit(X, Y, contexts=AGE, resume=str(file))
    assert Counted.fits == 2 * 2 + 1
    assert len(more.cv_results_["params"]) == 10


def test_a_line_that_a_crash_cut_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    search(n_iter=3).fit(X, Y, contexts=AGE, resume=file)
    file.write_text(file.read_text()[:-30])
    Counted.fits = 0
    search(n_iter=3).fit(X, Y, contexts=AGE, resume=file)
    assert Counted.fits == 2 + 1
    assert [len(json.loads(line)) for line in file.read_text().splitlines()][1:] == [2, 2, 2]


def test_a_candidate_of_a_batch_that_was_under_way_is_fitted_again(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    with parallel_config("threading"):
        whole = search(n_jobs=4).fit(X, Y, contexts=AGE, resume=file)  # two candidates at once
        lines = file.read_text().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines[1:], 1) if '"asked"' in line.lower())
        file.write_text("".join(lines[: at + 1]))  # its partner is pending
        resumed = search(n_jobs=4).fit(X, Y, contexts=AGE, resume=file)
    assert resumed.cv_results_["params"][: at + 1] == whole.cv_results_["params"][: at + 1]
    assert len(resumed.cv_results_["params"]) == 7


def test_failures_are_kept(tmp_path: Path) -> None:
    space = {"C": drbo.Log(1e-3, 10.0), "solver": ["lbfgs", "nonsense"]}
    file, made = tmp_path / "search.json", []
    for n_iter in (4, 6):
        with pytest.warns(FitFailedWarning, match="InvalidParameterError"):
            made.append(search(param_space=space, n_iter=n_iter).fit(X, Y, contexts=AGE, resume=file))
    failed = np.isnan(made[1].cv_results_["mean_test_score"])
    assert np.array_equal(np.isnan(made[0].cv_results_["mean_test_score"]), failed[:4])
    assert [p["solver"] == "nonsense" for p in made[1].cv_results_["params"]] == failed.tolist()


def test_another_search_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    search(n_iter=2).fit(X, Y, contexts=AGE, resume=file)
    for other, y, age, differs in (
        (search(z=1.0), Y, AGE, "z"),
        (search(scoring="accuracy"), Y, AGE, "scoring"),
        (search(ambiguity=drbo.Shares(old=(0.1, 0.5))), Y, AGE, "ambiguity"),
        (search(), 1 - Y, AGE, "y"),
        (search(), Y, AGE[::-1], "contexts, folds"),
    ):
        with pytest.raises(ValueError, match=f"holds another search, which differs in {differs}"):
            other.fit(X, y, contexts=age, resume=file)
    file.write_text("[1, 2]\n")
    with pytest.raises(ValueError, match="is not a file of a search"):
        search().fit(X, Y, contexts=AGE, resume=file)
    with pytest.raises(TypeError, match="resume must be the path of a file"):
        search().fit(X, Y, contexts=AGE, resume=3)


def few(count: int) -> Any:
    return np.where(np.arange(80) < count, "rare", "young")


@pytest.mark.parametrize(
    ("arguments", "contexts", "sentence"),
    [
        ({"ambiguity": None}, few(1), "at least 2 rows in every group, one per fold, but 'rare' has 1"),
        (
            {"ambiguity": None, "cv": KFold(2)},
            few(10),
            "in the test rows of every fold, but 'rare' is missing from fold 1",
        ),
        ({"ambiguity": drbo.Shares(elderly=(0.1, 0.6))}, AGE, "names the unknown group 'elderly'.*'old', 'young'"),
        ({}, AGE[:-1], "contexts must have one label per row, 80, got 79"),
        (
            {},
            [None if i == 7 else age for i, age in enumerate(AGE)],
            "contexts must not hold missing values, but row 7 is one",
        ),
        ({}, "ages", "contexts must be one label per row, .* got 'ages'"),
        ({}, X, "contexts must be one label per row"),
        ({"bins": 1}, X[:, 0], "bins must be at least 2, got 1"),
        ({"bins": [2.0, 1.0]}, X[:, 0], "bins must be a number of bins, or edges that increase"),
        ({"bins": {"age": 3}}, AGE, "bins names age, but the columns of contexts are"),
        ({"ambiguity": drbo.TotalVariation()}, AGE, "radius"),
        ({"ambiguity": "Shares"}, AGE, "ambiguity must be a set such as"),
        ({"n_iter": 0}, AGE, "n_iter must be at least 1, got 0"),
        ({"z": -1.0}, AGE, "z must be from 0 to 8, got -1.0"),
        ({"refit": "yes"}, AGE, "refit must be True or False, got 'yes'"),
        ({"error_score": "zero"}, AGE, "error_score must be a number, NaN or 'raise', got 'zero'"),
        ({"scoring": "nonsense"}, AGE, "scoring must be a name of .*, got 'nonsense'"),
        ({"scoring": ["accuracy", "neg_log_loss"]}, AGE, "scoring must be one scorer"),
        ({"param_space": {}}, AGE, "param_space must hold at least one hyper-parameter with several values"),
        ({"param_space": {"C": [1.0]}}, AGE, "param_space must hold at least one hyper-parameter with several values"),
        ({"param_space": {"C": []}}, AGE, "at least one choice"),
        ({"param_space": [{"C": (0.1, 1.0)}]}, AGE, "param_space must map names"),
        ({"param_space": {"gamma": (0.1, 1.0)}}, AGE, "'gamma', which the estimator does not have"),
        ({"param_space": {"C": norm(0.0, 1.0)}}, AGE, "must have a range, but scipy.stats.norm goes from -inf to inf"),
        ({"param_space": {"C": (1.0, 0.1)}}, AGE, "low must be less than high"),
        ({"param_space": {"C": "large"}}, AGE, "must be .low, high., a list of choices"),
        ({"estimator": KMeans(), "scoring": None, "param_space": {"n_clusters": (2, 3)}}, AGE, "scoring must be given"),
    ],
)
def test_bad_input_is_named_in_one_sentence(arguments: dict[str, Any], contexts: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        search().set_params(**arguments).fit(X, Y, contexts=contexts)
    assert "\n" not in str(caught.value)
    assert Counted.fits == 0


def test_bad_weights() -> None:
    with pytest.raises(ValueError, match="sample_weight must give every group some weight, but 'old' has none"):
        search().fit(X, Y, contexts=AGE, sample_weight=np.where(AGE == "old", 0.0, 1.0))
    with pytest.raises(ValueError, match="sample_weight must hold 80 numbers of at least zero"):
        search().fit(X, Y, contexts=AGE, sample_weight=-np.ones(80))
    with pytest.raises(ValueError, match="groups"):
        search(cv=GroupKFold(2)).fit(X, Y, contexts=AGE)
