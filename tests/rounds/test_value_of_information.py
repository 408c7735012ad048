"""The value of information: gains against brute force, and problems in which looking one outcome ahead goes wrong."""

import numpy as np
import pytest
from scipy.special import ndtri

import drbo
from drbo import GP, RBF, Product, ValueOfInformation
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models import ExactPosterior
from drbo.rounds.ball import Ball
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.policies import Round
from drbo.rounds.value_of_information import ActionDraws
from drbo.spaces import FiniteSet
from exact import exact
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs

NOWHERE = np.empty((0, 1))
INDEPENDENT = GP(Product(RBF(0.01, 10.0), RBF(0.01)), noise=0.01)


def two_arms(means: tuple[float, float]) -> drbo.Optimizer:
    """Return an optimizer that knows A = 0, and of B two independent contexts by their means, with deviation 1."""
    everything = drbo.Simulator([0.5, 0.5], 1.0, pick="valuable")  # with total variation: all distributions
    opt = drbo.Optimizer(
        ["A", "B"],
        ["first", "second"],
        ambiguity=drbo.TotalVariation(),
        setting=everything,
        surrogate=INDEPENDENT,
    )
    for context, mean in zip(["first", "second"], means, strict=True):
        opt.tell("A", 0.0, context=context, stderr=1e-4)
        opt.tell("B", mean, context=context, stderr=1.0)
    return opt


def fixed_weight_gains(opt: drbo.Optimizer) -> np.ndarray:
    """Return the gain (2,) of both contexts of B if the worst case of the mean is held fixed, by quadrature."""
    belief = opt._known.belief(opt._known.state)
    mean, variance = exact(belief.certain).on_grid()
    w = np.eye(2)[mean[1].argmin()]
    t, share = np.polynomial.hermite_e.hermegauss(201)
    after = mean[1] @ w + t[:, None] * (w * np.sqrt(variance[1]))
    value = max(float(mean[0].min()), float(mean[1] @ w))
    return np.asarray((share[:, None] * np.maximum(after, mean[0].min())).sum(axis=0) / share.sum() - value)


def test_a_context_without_weight_in_the_worst_case_of_the_mean_is_worth_a_look() -> None:
    """B has prior means (0.1, 0.5) and is truly (0.2, -2): with the weight fixed its second context has no value."""
    truth = {"first": 0.2, "second": -2.0}
    opt = two_arms((0.1, 0.5))
    first, second = fixed_weight_gains(opt)
    assert abs(second) < 1e-9 < 0.1 < first
    stuck = two_arms((0.1, 0.5))
    for _ in range(5):
        context = ["first", "second"][int(np.argmax(fixed_weight_gains(stuck)))]
        stuck.tell("B", truth[context], context=context)
    assert {r.context for r in stuck.results[4:]} == {"first"}
    belief = stuck._known.belief(stuck._known.state)
    assert exact(belief.certain).on_grid()[0].min(axis=1).argmax() == 1  # B would be deployed, at -2
    for _ in range(5):
        s = opt.ask()
        opt.tell(s, truth[s.context] if s.action == "B" else 0.0)
    assert "second" in {r.context for r in opt.results[4:] if r.action == "B"}
    assert opt.recommend().action == "A"


def test_where_two_outcomes_are_needed_it_goes_on_exploring() -> None:
    """B has means (-1, -1): no single outcome lifts its worst case above A, and yet it may be better."""
    opt = two_arms((-1.0, -1.0))
    belief, ball = opt._known.belief(opt._known.state), opt._known.ball(opt._known.state, opt._known.state.terms)
    draws = ActionDraws.of(
        ball, belief.certain, np.asarray(exact(belief.certain).actions), 64, np.random.default_rng(0)
    )
    rows, columns = np.divmod(np.arange(4), 2)
    gains = draws.gains(rows, columns)
    np.testing.assert_array_less(gains.gains, 1e-4)
    for _ in range(6):
        s = opt.ask()
        opt.tell(s, 0.5 if s.action == "B" else 0.0)
    assert {r.context for r in opt.results[4:] if r.action == "B"} == {"first", "second"}
    assert opt.recommend().action == "B"


@pytest.mark.parametrize(
    ("ambiguity", "radius"), [(drbo.TotalVariation(), 0.3), (drbo.Expectation(), 0.0)], ids=["tv", "expectation"]
)
def test_gains_are_those_of_brute_force(ambiguity: drbo.AmbiguitySet, radius: float) -> None:
    rng = np.random.default_rng(1)
    actions, contexts = np.linspace(0, 1, 4)[:, None], np.linspace(0, 1, 3)[:, None]
    posterior = ExactPosterior.prior(GP(Product(RBF(0.4), RBF(0.5)), 0.2), actions, contexts)
    for _ in range(3):
        posterior = posterior.with_outcome(rng.random(1), rng.random(1), rng.normal())
    space = FiniteSet("contexts", contexts)
    reference = FiniteContexts(space).given(np.array([0.5, 0.3, 0.2]))
    ball = Ball(as_placed(ambiguity), reference, radius, space, 0)
    rows, columns = np.divmod(np.arange(12), 3)
    found = ActionDraws.of(ball, posterior, actions, 1024, np.random.default_rng(3)).gains(rows, columns)
    assert (found.gains >= 0.0).all()
    whole = dense_covariance(posterior)
    mean = posterior.mean.ravel()
    for z in (0, 7, 11):
        sd = np.sqrt(whole[z, z] + posterior.gp.ridge)
        slope = whole[z] / sd
        left = whole - np.outer(slope, slope)
        factor = np.linalg.cholesky(left + 1e-10 * np.eye(12))
        draws = factor @ rng.standard_normal((12, 400))
        draws = np.concatenate([draws, -draws], axis=1)
        t = ndtri((np.arange(100) + 0.5) / 100)
        values = (mean[:, None, None] + slope[:, None, None] * t[None, :, None] + draws[:, None, :]).reshape(4, 3, -1)
        worst = ambiguity.worst_case(values.swapaxes(1, 2), reference.weights, radius).expectation
        after = worst.reshape(4, len(t), -1).mean(axis=2)
        expected = after.max(axis=0).mean() - after.mean(axis=1).max()
        # few distributions stand for the set, and both are of few draws
        assert found.gains[z] == pytest.approx(expected, rel=0.1, abs=3.0 * found.errors[z] + 2e-3)


def dense_covariance(posterior: ExactPosterior) -> np.ndarray:
    """Return the covariance of f on the grid, row by row, without the methods of the posterior."""
    n = len(posterior.contexts)
    x, c = np.repeat(posterior.actions, n, axis=0), np.tile(posterior.contexts, (len(posterior.actions), 1))
    seen_x, seen_c = posterior.observed_actions, posterior.factor.embedding().points
    k_X, k_C = posterior.gp.kernel.action, posterior.gp.kernel.context
    K = k_X(seen_x, seen_x) * k_C(seen_c, seen_c) + posterior.gp.ridge * np.eye(len(seen_x))
    k = k_X(seen_x, x) * k_C(seen_c, c)
    return np.asarray(k_X(x, x) * k_C(c, c) - k.T @ np.linalg.solve(K, k))


def test_it_chooses_the_evaluation_of_the_largest_gain_of_all() -> None:
    """On a small grid all actions are on the shortlist, so that no evaluation may have a clearly larger gain."""
    for seed in range(3):
        known, ball = (
            beliefs(seed),
            Ball(as_placed(drbo.MMD(CONTEXTS.points, RBF(0.2))), REFERENCE, 0.2, CONTEXTS, seed),
        )
        choice = ValueOfInformation().choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
        draws = ActionDraws.of(ball, known.ahead, ACTIONS.coordinates, 512, np.random.default_rng(9))
        rows, columns = np.divmod(np.arange(9 * 7), 7)
        gains = draws.gains(rows, columns)
        assert choice.context is not None
        assert choice.action.index is not None
        assert choice.context.index is not None
        chosen = gains.gains[choice.action.index * 7 + choice.context.index]
        assert chosen >= 0.9 * gains.gains.max()


def test_an_odd_number_of_draws_is_refused() -> None:
    with pytest.raises(ValueError, match="draws must be an even number"):
        ValueOfInformation(7)
