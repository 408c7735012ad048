"""Optuna's own suite for samplers: all parts for relative samplers of one objective."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo.integrations.optuna import RobustSampler

suite: Any = pytest.importorskip("optuna.testing.pytest_samplers", reason="this Optuna has no suite for samplers")
PARTS: Any = type(
    "Parts", (suite.BasicSamplerTestCase, suite.RelativeSamplerTestCase, suite.SingleOnlySamplerTestCase), {}
)
pytestmark = pytest.mark.filterwarnings(
    "ignore::optuna.exceptions.ExperimentalWarning",
    "ignore:Inconsistent parameter values",
    "ignore:trial .* does not count",
)


class Watched(RobustSampler):
    """A sampler of a study whose objective knows of no conditions: nature reveals them at the end of each trial."""

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        study._storage.set_trial_user_attr(trial._trial_id, "weather", float(trial.number % 5))
        super().after_trial(study, study._storage.get_trial(trial._trial_id), state, values)


class TestRobustSampler(PARTS):  # type: ignore[misc]
    @pytest.fixture
    def sampler(self) -> Callable[[], Any]:
        contexts = drbo.Samples({"weather": np.arange(5.0)})
        gp = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)
        return lambda: Watched(contexts, setting=drbo.DataDriven(radius=0.1), surrogate=gp)
