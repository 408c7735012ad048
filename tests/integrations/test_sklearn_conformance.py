"""scikit-learn's own checks of estimators."""

from typing import Any

import pytest

pytest.importorskip("sklearn", reason="drbo[sklearn] is not installed")

from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import drbo
from drbo.integrations.sklearn import RobustSearchCV

CLASSIFIER = RobustSearchCV(LogisticRegression(), {"C": drbo.Log(0.1, 10.0)}, n_iter=2, cv=2, random_state=0)
REGRESSOR = RobustSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0)


@pytest.mark.filterwarnings("ignore")  # what the checks feed the estimators
@parametrize_with_checks([CLASSIFIER, REGRESSOR])  # type: ignore[untyped-decorator]
def test_a_check_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
