"""scikit-learn's own checks of estimators."""

from typing import Any

import pytest

pytest.importorskip("sklearn", reason="drbo[sklearn] is not installed")

from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import check_estimator

import drbo
from drbo.integrations.sklearn import RobustSearchCV


@pytest.mark.filterwarnings("ignore")  # what the checks feed the estimators
@pytest.mark.parametrize(
    ("estimator", "space"), [(LogisticRegression(), {"C": drbo.Log(0.1, 10.0)}), (Ridge(), {"alpha": [0.1, 1.0]})]
)
def test_the_checks_of_scikit_learn(estimator: Any, space: dict[str, Any]) -> None:
    shown = check_estimator(RobustSearchCV(estimator, space, n_iter=2, cv=2, random_state=0), on_skip=None)
    assert sum(one["status"] == "passed" for one in shown) > 40
    assert {one["status"] for one in shown} <= {"passed", "skipped"}
