"""The pruned argmax chooses as an exhaustive search does."""

import numpy as np
import pytest

import robos
from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    ChiSquare,
    CVaR,
    Expectation,
    Neighbourhood,
    Product,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import WorstCaseError
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models import ExactPosterior
from drbo.models.bounds import UPPER, Bound
from drbo.models.data import Observation
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.grid_search import GridSearch, best_action, robust_scores
from drbo.spaces import FiniteSet, Point
from drbo.validation import FloatArray
from tolerances import FEASIBLE, ROUNDING

N_CONTEXTS = 25
CONTEXTS = np.linspace(0, 1, N_CONTEXTS)[:, None]
SETS: list[AmbiguitySet] = [
    MMD(CONTEXTS, RBF(0.1)), Expectation(), Neighbourhood(CONTEXTS), TotalVariation(), KL(), ChiSquare(), CVaR(),
    Wasserstein(CONTEXTS),
]  # fmt: skip


def exhaustive(values: np.ndarray, ambiguity: AmbiguitySet, reference: np.ndarray, radius: float) -> int:
    """The first action whose score is within a tie of the best one's."""
    scores = robust_scores(values, ambiguity, reference, radius)
    return first_of_the_best(scores, TIE * np.ptp(values) + 1e-14)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("kind", ["smooth", "rough", "tied", "mirrored", "flat"])
def test_pruning_changes_no_choice(ambiguity: AmbiguitySet, kind: str) -> None:
    rng = np.random.default_rng(0)
    before = None
    for radius in (0.0, 1e-6, 0.05, 0.3, np.inf):
        for _ in range(20):
            n = int(rng.integers(1, 60))
            values = rng.normal(size=(n, N_CONTEXTS))
            if kind == "smooth":
                phase, pace = rng.random((n, 1)) * 6, rng.random((n, 1)) * 5
                values = np.cos(phase + pace * CONTEXTS[:, 0])
            elif kind == "tied":
                values = rng.integers(0, 2, (n, N_CONTEXTS)).astype(float)
            elif kind == "mirrored":
                values = np.concatenate([values, values[:, ::-1]])
            elif kind == "flat":
                values = np.full((n, N_CONTEXTS), 0.1)
            reference = rng.dirichlet(np.ones(N_CONTEXTS))
            reference = (reference + reference[::-1]) / 2
            choice = best_action(values, ambiguity, reference, radius)
            assert choice.action_index == exhaustive(values, ambiguity, reference, radius)
            scores = robust_scores(values, ambiguity, reference, radius)
            assert choice.score == pytest.approx(scores[choice.action_index], abs=1e-12)
            before = best_action(values, ambiguity, reference, radius, choice.visited)
            assert before.action_index == choice.action_index
            for weights in choice.visited:
                if not isinstance(ambiguity, Expectation) and not (
                    isinstance(ambiguity, Neighbourhood) and radius < 0.05  # the nearest context may be further away
                ):
                    assert ambiguity.distance(weights, reference) <= radius + FEASIBLE


def test_a_reference_outside_the_set_is_no_bound() -> None:
    """StableOpt's set need not hold the reference: here the reference's expectation is below every score."""
    contexts = np.array([0.0, 0.5, 1.0])
    values = np.array([[-9.0, 1.0, -9.0], [0.0, 0.5, 0.0]])
    choice = best_action(values, Neighbourhood(contexts), np.array([0.5, 0.0, 0.5]), 0.1)
    assert choice.action_index == 0


def test_a_reference_whose_sum_is_off_by_the_tolerance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.normal(size=(30, N_CONTEXTS)) - 1e6
        reference = rng.dirichlet(np.ones(N_CONTEXTS)) * (1 + 9e-9)
        assert best_action(values, SETS[0], reference, 0.1).action_index == exhaustive(values, SETS[0], reference, 0.1)


def test_few_solves_suffice() -> None:
    n = 1000
    x, c = np.linspace(0, 1, n)[:, None], np.linspace(0, 1, N_CONTEXTS)[None, :]
    values = np.sin(9 * x) * np.cos(4 * c) + np.exp(-30 * (x - c) ** 2)
    reference = np.full(N_CONTEXTS, 1 / N_CONTEXTS)
    choice = best_action(values, SETS[0], reference, 0.2)
    assert choice.action_index == exhaustive(values, SETS[0], reference, 0.2)
    assert len(choice.visited) < n / 8  # several at a time, so a few more than one by one


def test_flat_values_need_no_search() -> None:
    assert (
        len(best_action(np.zeros((1000, N_CONTEXTS)), SETS[0], np.full(N_CONTEXTS, 1 / N_CONTEXTS), 0.2).visited) < 10
    )


@pytest.mark.parametrize("error", [-0.1, np.nan])
def test_a_worst_case_without_a_certificate_is_no_choice(error: float) -> None:
    class Uncertified(TotalVariation):
        def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
            weights, lower_bound = super()._solve(values, reference, radius)
            return weights, lower_bound + error

    values = np.random.default_rng(0).normal(size=(5, N_CONTEXTS))
    with pytest.raises(WorstCaseError, match="left a gap"):
        best_action(values, Uncertified(), np.full(N_CONTEXTS, 1 / N_CONTEXTS), 0.2)


def test_robos_choices() -> None:
    mmd = MMD(robos.C, robos.MMD_KERNEL)
    chosen = [best_action(robos.F, mmd, robos.REFERENCE, r * robos.RADIUS).action_index for r in (0, 1 / 3, 1, 3)]
    assert robos.X[chosen].tolist() == [2.5, 2.5, -2.5, -0.5]


@pytest.mark.parametrize(
    ("values", "reference", "feasible", "message"),
    [
        (np.eye(4), np.full(4, 0.25), None, "ambiguity is for 25 contexts, but there are 4"),
        (np.zeros((3, 30)), np.full(30, 1 / 30), None, "ambiguity is for 25 contexts, but there are 30"),
        (
            np.zeros(N_CONTEXTS),
            np.full(N_CONTEXTS, 1 / N_CONTEXTS),
            None,
            r"values must have shape \(n_actions, 25\) to match",
        ),
        (np.zeros((3, N_CONTEXTS)), np.full(5, 0.2), None, r"values must have shape \(n_actions, 5\) to match"),
        (
            np.zeros((3, N_CONTEXTS)),
            np.full(N_CONTEXTS, 1 / N_CONTEXTS),
            np.full((1, 40), 1 / 40),
            r"feasible must have shape \(k, 25\) to match reference",
        ),
    ],
)
def test_sizes_that_disagree_never_reach_compiled_code(
    values: FloatArray, reference: FloatArray, feasible: FloatArray | None, message: str
) -> None:
    for ambiguity in (SETS[0], SETS[2], SETS[-1]):
        with pytest.raises(ValueError, match=message):
            best_action(values, ambiguity, reference, 0.1, feasible)


# --- the search of an optimizer ---------------------------------------------------------------------------------------


def ball_and_bound(ambiguity: AmbiguitySet, seed: int = 0) -> tuple[GridSearch, Ball, Bound]:
    """A grid of 12 actions after 20 outcomes."""
    rng = np.random.default_rng(seed)
    actions, contexts = FiniteSet("actions", np.linspace(0, 1, 12)), FiniteSet("contexts", CONTEXTS)
    search = GridSearch(actions)
    posterior = ExactPosterior.prior(GP(Product(RBF(0.2), RBF(0.3)), 0.1), actions.coordinates, contexts.coordinates)
    for _ in range(20):
        posterior = posterior.with_more([Observation.of(rng.random(1), rng.random(1), rng.normal())])
    reference = FiniteContexts(contexts).given(rng.dirichlet(np.ones(N_CONTEXTS)))
    return search, Ball(as_placed(ambiguity), reference, 0.1, contexts, seed), Bound(posterior, 2.0, UPPER)


NOWHERE = np.empty((0, 1))


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_the_search_finds_the_best_of_the_grid(ambiguity: AmbiguitySet) -> None:
    search, ball, bound = ball_and_bound(ambiguity)
    values = bound.on_grid()
    expected = exhaustive(values, ambiguity, ball.weights, ball.radius)
    for _ in range(2):  # what the last search met saves work, and changes nothing
        found = search.best(ball, bound, NOWHERE, NOWHERE)
        assert found.action.same_as(search.space.at("action_index", expected))
        score = float(ambiguity.worst_case(values[expected], ball.weights, ball.radius).expectation)
        assert found.score == pytest.approx(score, rel=ROUNDING)


def test_actions_that_failed_are_left_out() -> None:
    search, ball, bound = ball_and_bound(SETS[0])
    scores = robust_scores(bound.on_grid(), SETS[0], ball.weights, ball.radius)
    failed: list[Point] = []
    for expected in np.argsort(-scores):
        found = search.best(ball, bound, NOWHERE, NOWHERE, failed)
        assert found.action.index == expected
        failed.append(found.action)
    with pytest.raises(RuntimeError, match="every action has failed"):
        search.best(ball, bound, NOWHERE, NOWHERE, failed)


def test_the_score_does_not_hang_on_what_was_asked_before() -> None:
    """A batch starts each solve from the one before it; the score of record is that of a solve alone, to the bit."""
    for ambiguity in SETS:
        search, ball, bound = ball_and_bound(ambiguity)
        fresh = search.best(ball, bound, NOWHERE, NOWHERE).score
        _, other, _ = ball_and_bound(ambiguity, seed=1)
        search.best(other, bound, NOWHERE, NOWHERE)
        assert search.best(ball, bound, NOWHERE, NOWHERE).score == fresh
