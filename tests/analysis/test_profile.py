"""The robustness profile: every row against its definition, and the ends of its intervals from both sides."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import drbo
import robos
from drbo.problems import benchmark_1, wind
from drbo.rounds.grid import robust_scores
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


def test_frame_and_picture() -> None:
    result = drbo.profile(robos.F, SET, robos.REFERENCE, [0.0, 0.2])
    assert result.to_frame()["radius"].tolist() == [0.0, 0.2]
    assert [axes.get_title() for axes in result.plot().axes] == ["Value", "Robustness"]


def test_rows_in_any_order_and_as_a_table() -> None:
    up = drbo.profile(robos.F, SET, robos.REFERENCE, RADII)
    down = drbo.profile(robos.F, SET, robos.REFERENCE, RADII[::-1])
    np.testing.assert_allclose(down.best_until[::-1], up.best_until, rtol=1e-6)
    rows = up.rows()
    assert len(rows) == len(RADII)
    assert set(rows[0]) == {"radius", "action_index", "worst_case", "expected", "price", "protection", "best_until"}


@pytest.mark.parametrize(
    "ambiguity",
    [SET, drbo.TotalVariation(), drbo.KL(), drbo.ChiSquare(), drbo.CVaR(), drbo.Wasserstein(robos.C)],
    ids=repr,
)
def test_radius_for_loss_is_the_first_that_loses_it(ambiguity: drbo.AmbiguitySet) -> None:
    values = robos.F[1]
    expected = values @ robos.REFERENCE
    most = expected - ambiguity.worst_case(values, robos.REFERENCE, math.inf).expectation
    for share in (0.1, 0.5):  # beyond, the tails of 1e-20 leave CVaR no radius between 1 - 1e-16 and 1
        radius = drbo.radius_for_loss(values, ambiguity, robos.REFERENCE, share * most)
        worst = ambiguity.worst_case(values, robos.REFERENCE, radius).expectation
        assert expected - worst == pytest.approx(share * most, rel=1e-6)
    assert drbo.radius_for_loss(values, ambiguity, robos.REFERENCE, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert drbo.radius_for_loss(values, ambiguity, robos.REFERENCE, 2 * most) == math.inf


@pytest.mark.parametrize(
    "ambiguity", [drbo.TotalVariation(), drbo.KL(), drbo.CVaR(), drbo.Wasserstein(robos.C)], ids=repr
)
def test_a_profile_of_every_set(ambiguity: drbo.AmbiguitySet) -> None:
    result = drbo.profile(robos.F, ambiguity, robos.REFERENCE, [0.0, 0.1, 0.5, math.inf])
    assert (np.diff(result.worst_case) <= 1e-12).all()
    assert result.price[0] == 0.0
    assert math.isinf(result.best_until[-1])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="loss must be zero or more"):
        drbo.radius_for_loss(robos.F[0], SET, robos.REFERENCE, -1.0)
    with pytest.raises(ValueError, match="radii must be zero or more"):
        drbo.profile(robos.F, SET, robos.REFERENCE, [-1.0])
    with pytest.raises(ValueError, match="values must have 2 dimension"):
        drbo.profile(robos.F[0], SET, robos.REFERENCE, [0.0])
    with pytest.raises(ValueError, match="reference must hold 50 weights"):
        drbo.profile(robos.F, SET, robos.REFERENCE[:-1], [0.0])


def test_a_loss_at_any_radius_but_zero() -> None:
    """Mass moves freely between contexts that the kernel does not tell apart; the search for the first radius ends."""
    assert 0.0 < drbo.radius_for_loss([1.0, 0.0], drbo.MMD([0.5, 0.5]), [0.5, 0.5], 0.25) < 1e-290


@pytest.mark.slow
def test_the_radii_of_the_documentation() -> None:
    """Each range of docs/ambiguity.md, to the digits printed: where the optima lose a tenth to a half of the most."""
    page = (Path(__file__).parents[2] / "docs" / "ambiguity.md").read_text()
    rows = re.findall(r"^\| `(\w+)\(.*\| ([\d.]+) to ([\d.]+) \| ([\d.]+) to ([\d.]+) \|", page, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == ["CVaR", "TotalVariation", "KL", "ChiSquare", "Wasserstein", "MMD"]
    for problem, column in ((wind(), 1), (benchmark_1(), 3)):
        p = problem.reference
        sets = {"MMD": problem.ambiguity, "Wasserstein": drbo.Wasserstein(problem.contexts)}
        for row in rows:
            ambiguity = sets.get(row[0]) or getattr(drbo, row[0])()
            found: list[float] = []
            for best in (problem.stochastic_optimum, problem.robust_optimum):
                v = problem.values[best.action_index]
                most = float(v @ p - ambiguity.worst_case(v, p, math.inf).expectation)
                found.extend(drbo.radius_for_loss(v, ambiguity, p, share * most) for share in (0.1, 0.5))
            printed = [float(end) for end in row[column : column + 2]]
            assert [min(found), max(found)] == pytest.approx(printed, rel=0.03), (row[0], problem.name)
