"""The robustness profile: every row against its definition, and the ends of its intervals from both sides."""

import math

import numpy as np
import pytest

import drbo
import robos
from drbo.policy import robust_scores
from tolerances import CLOSED_FORM

SET = drbo.MMD(robos.C, robos.MMD_KERNEL)
RADII = np.array([0.0, 0.1, robos.RADIUS / 3, robos.RADIUS, 0.8, 3 * robos.RADIUS])


def test_rows_are_their_definition() -> None:
    result = drbo.profile(robos.F, SET, robos.REFERENCE, RADII)
    expected = robos.F @ robos.REFERENCE
    for i, radius in enumerate(RADII):
        scores = robust_scores(robos.F, SET, robos.REFERENCE, radius)
        x = result.action_index[i]
        assert x == np.argmax(scores)
        assert result.worst_case[i] == pytest.approx(scores[x], abs=CLOSED_FORM)
        assert result.expected[i] == pytest.approx(expected[x], abs=CLOSED_FORM)
        assert result.price[i] == pytest.approx(expected.max() - expected[x], abs=CLOSED_FORM)
        assert result.protection[i] == pytest.approx(scores[x] - scores[np.argmax(expected)], abs=CLOSED_FORM)
        assert result.weights[i] @ robos.F[x] == pytest.approx(scores[x], abs=CLOSED_FORM)
    assert robos.X[result.action_index[[0, 2, 3, 5]]].tolist() == [2.5, 2.5, -2.5, -0.5]
    assert (result.price >= 0).all()
    assert (result.protection >= -CLOSED_FORM).all()


def test_best_until_is_where_the_choice_changes() -> None:
    result = drbo.profile(robos.F, SET, robos.REFERENCE, RADII)
    for x, until in zip(result.action_index, result.best_until, strict=True):
        if math.isinf(until):
            assert np.argmax(robust_scores(robos.F, SET, robos.REFERENCE, math.inf)) == x
            continue
        before = robust_scores(robos.F, SET, robos.REFERENCE, until * (1 - 1e-6))
        after = robust_scores(robos.F, SET, robos.REFERENCE, until * (1 + 1e-6))
        assert np.argmax(before) == x
        assert np.argmax(after) != x
    # It does not depend on how fine the table is.
    alone = drbo.profile(robos.F, SET, robos.REFERENCE, [0.0])
    assert alone.best_until[0] == pytest.approx(result.best_until[0], rel=1e-6)


def test_rows_in_any_order_and_as_a_table() -> None:
    up = drbo.profile(robos.F, SET, robos.REFERENCE, RADII)
    down = drbo.profile(robos.F, SET, robos.REFERENCE, RADII[::-1])
    np.testing.assert_allclose(down.best_until[::-1], up.best_until, rtol=1e-6)
    rows = up.rows()
    assert len(rows) == len(RADII)
    assert set(rows[0]) == {"radius", "action_index", "worst_case", "expected", "price", "protection", "best_until"}


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="radii must be zero or more"):
        drbo.profile(robos.F, SET, robos.REFERENCE, [-1.0])
    with pytest.raises(ValueError, match="values must have 2 dimension"):
        drbo.profile(robos.F[0], SET, robos.REFERENCE, [0.0])
    with pytest.raises(ValueError, match="reference must hold 50 weights"):
        drbo.profile(robos.F, SET, robos.REFERENCE[:-1], [0.0])
