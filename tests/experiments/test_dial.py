"""The radius dial of known values: every row against its definition, and radii that lose a given amount."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import drbo
import robos
from drbo.experiments._tasks import Goal, RadiusDial, radius_for_loss
from drbo.problems import benchmark_1, by_name, wind
from drbo.rounds.grid_search import robust_scores
from tolerances import CLOSED_FORM

PROBLEM = by_name("robos")
SETS = [PROBLEM.ambiguity, drbo.TotalVariation(), drbo.KL(), drbo.CVaR(), drbo.Wasserstein(robos.C)]
RADII = np.array([0.0, 0.1, robos.RADIUS / 3, robos.RADIUS, 0.8, 3 * robos.RADIUS])


def dial(ambiguity: drbo.AmbiguitySet, radii: np.ndarray = RADII) -> RadiusDial:
    return RadiusDial.of(PROBLEM, Goal(ambiguity, 0.1), radii)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_rows_are_their_definition(ambiguity: drbo.AmbiguitySet) -> None:
    result = dial(ambiguity)
    expected = robos.F @ robos.REFERENCE
    for i, radius in enumerate(RADII):
        scores = robust_scores(robos.F, ambiguity, robos.REFERENCE, radius)
        x = result.action_index[i]
        assert x == np.argmax(scores)
        assert result.worst_case[i] == pytest.approx(scores[x], abs=CLOSED_FORM)
        assert result.expected[i] == pytest.approx(expected[x], abs=CLOSED_FORM)
        assert result.price[i] == pytest.approx(expected.max() - expected[x], abs=CLOSED_FORM)
        assert result.protection[i] == pytest.approx(scores[x] - scores[np.argmax(expected)], abs=CLOSED_FORM)
        assert result.weights[i] @ robos.F[x] == pytest.approx(scores[x], abs=CLOSED_FORM)
    assert (np.diff(result.worst_case) <= 1e-12).all()
    assert (result.protection >= -CLOSED_FORM).all()
    names = {"radius", "action_index", "worst_case", "expected", "price", "protection", "best_until"}
    assert set(result.row(1)) == names
    assert result.row(1)["radius"] == 0.1


def test_best_until_is_where_the_choice_changes() -> None:
    result = dial(PROBLEM.ambiguity)
    assert robos.X[result.action_index[[0, 2, 3, 5]]].tolist() == [2.5, 2.5, -2.5, -0.5]
    for x, until in zip(result.action_index, result.best_until, strict=True):
        if math.isinf(until):
            assert x == result.action_index[-1]
            continue
        before = robust_scores(robos.F, PROBLEM.ambiguity, robos.REFERENCE, until * (1 - 1e-6))
        after = robust_scores(robos.F, PROBLEM.ambiguity, robos.REFERENCE, until * (1 + 1e-6))
        assert np.argmax(before) == x
        assert np.argmax(after) != x
    finer = dial(PROBLEM.ambiguity, np.linspace(0.0, 3 * robos.RADIUS, 40))
    assert finer.best_until[0] == pytest.approx(result.best_until[0], rel=1e-6)


@pytest.mark.parametrize("ambiguity", [*SETS, drbo.ChiSquare()], ids=repr)
def test_radius_for_loss_is_the_first_that_loses_it(ambiguity: drbo.AmbiguitySet) -> None:
    values = robos.F[1]
    expected = values @ robos.REFERENCE
    most = expected - ambiguity.worst_case(values, robos.REFERENCE, math.inf).expectation
    for share in (0.1, 0.5):  # beyond, the tails of 1e-20 leave CVaR no radius between 1 - 1e-16 and 1
        radius = radius_for_loss(values, ambiguity, robos.REFERENCE, share * most)
        worst = ambiguity.worst_case(values, robos.REFERENCE, radius).expectation
        assert expected - worst == pytest.approx(share * most, rel=1e-6)
    assert radius_for_loss(values, ambiguity, robos.REFERENCE, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert radius_for_loss(values, ambiguity, robos.REFERENCE, 2 * most) == math.inf


def test_a_loss_at_any_radius_but_zero() -> None:
    """Mass moves freely between contexts that the kernel does not tell apart; the search for the first radius ends."""
    values, reference = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    assert 0.0 < radius_for_loss(values, drbo.MMD([0.5, 0.5]), reference, 0.25) < 1e-290


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
                found.extend(radius_for_loss(v, ambiguity, p, share * most) for share in (0.1, 0.5))
            printed = [float(end) for end in row[column : column + 2]]
            assert [min(found), max(found)] == pytest.approx(printed, rel=0.03), (row[0], problem.name)
