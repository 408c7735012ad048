"""One of several scenarios."""

import numpy as np
import pytest

from drbo import MMD, RBF, AnyOf, Categorical, Samples
from drbo.spaces import Labels
from tolerances import SOLVER

CONTEXTS = np.linspace(0.0, 1.0, 6)[:, None]
RNG = np.random.default_rng(0)
SCENARIOS = RNG.dirichlet(np.ones(6), size=3)
P, VALUES = RNG.dirichlet(np.ones(6)), RNG.normal(size=(20, 6))


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.5])
def test_the_worst_case_is_that_of_the_worst_scenario(radius: float) -> None:
    ball = MMD(CONTEXTS, RBF(0.3))
    worst = AnyOf(SCENARIOS, within=MMD(kernel=RBF(0.3))).on(CONTEXTS).worst_case(VALUES, P, radius)
    alone = [ball.worst_case(VALUES, p, radius) for p in (*SCENARIOS, P)]
    np.testing.assert_allclose(worst.expectation, np.min([one.expectation for one in alone], axis=0), atol=SOLVER)
    np.testing.assert_allclose(worst.lower_bound, np.min([one.lower_bound for one in alone], axis=0), atol=SOLVER)


def test_samples_and_labels_as_scenarios() -> None:
    placed = AnyOf([Samples([[0.2], [0.2], [1.0]])]).on(CONTEXTS)
    only = placed.worst_case([0.0, -3.0, 0.0, 0.0, 0.0, 0.0], np.eye(6)[0], 0.0)
    np.testing.assert_allclose(only.weights, [0.0, 2 / 3, 0.0, 0.0, 0.0, 1 / 3])
    labels = Labels("contexts", Categorical("young", "old"))
    by_label = AnyOf([{"old": 3, "young": 1}]).with_columns(labels.columns).on(labels.points)
    np.testing.assert_allclose(by_label.worst_case([1.0, 0.0], [1.0, 0.0], 0.0).weights, [0.25, 0.75])
    with pytest.raises(ValueError, match="unknown label 'ancient': expected 'young'"):
        AnyOf([{"ancient": 1.0}]).with_columns(labels.columns).on(labels.points)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AnyOf([])
    with pytest.raises(TypeError, match="list of weights or of Samples"):
        AnyOf(Samples([[1.0]]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"scenarios\[0\] must hold 6 weights"):
        AnyOf([[0.5, 0.5]]).on(CONTEXTS)
    with pytest.raises(ValueError, match=r"scenarios\[0\] has a sample that is not one of the contexts, in row 1"):
        AnyOf([Samples([[0.2], [0.33]])]).on(CONTEXTS)
