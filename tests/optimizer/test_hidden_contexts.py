"""Outcomes whose context was never revealed, against dense linear algebra with kernel mean embeddings."""

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.validation import FloatArray
from exact import exact
from tolerances import CLOSED_FORM

X, C = np.linspace(0.0, 1.0, 6), np.linspace(-1.0, 1.0, 5)
KERNEL = drbo.Product(drbo.RBF(0.3, amplitude=1.5), drbo.Matern(0.6))
GP = drbo.GP(KERNEL, noise=0.1)
P = np.array([0.1, 0.0, 0.4, 0.3, 0.2])
Q = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
R = np.array([0.5, 0.5, 0.0, 0.0, 0.0])


def optimizer(**given: Any) -> drbo.Optimizer:
    arguments: dict[str, Any] = {"ambiguity": drbo.Expectation(), "setting": drbo.General(), "surrogate": GP}
    return drbo.Optimizer(X, C, **(arguments | given))


TOLD: list[tuple[float, Any, float, float | None]] = [  # action, distribution or index of a context, outcome, stderr
    (0.2, P, 1.0, None),
    (0.2, 3, 0.4, None),
    (0.8, R, -0.6, 0.3),
    (0.4, P, 0.9, None),
    (1.0, 0, 0.1, 0.05),
]


def tell_all(opt: drbo.Optimizer, sign: float = 1.0) -> drbo.Optimizer:
    for x, where, y, stderr in TOLD:
        if isinstance(where, int):
            opt.tell(x, sign * y, context_index=where, stderr=stderr)
        else:
            opt.tell(x, sign * y, distribution=where, stderr=stderr)
    return opt


def dense(gp: drbo.GP, scatter: Any) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of f on the whole grid by one dense solve; `scatter(p)` is added to the noise."""
    k_X, k_C = gp.kernel.action(X[:, None], X[:, None]), gp.kernel.context(C[:, None], C[:, None])
    K = np.kron(k_X, k_C)
    rows, noise, y = [], [], []
    for x, where, outcome, stderr in TOLD:
        p = np.eye(len(C))[where] if isinstance(where, int) else where
        rows.append(np.kron(np.eye(len(X))[np.argmin(np.abs(X - x))], p))
        noise.append((gp.noise if stderr is None else stderr) ** 2 + (0.0 if isinstance(where, int) else scatter(p)))
        y.append(outcome)
    A = np.array(rows)
    solved = np.linalg.solve(A @ K @ A.T + np.diag(noise), np.column_stack([y, A @ K]))
    return K @ A.T @ solved[:, 0], K - K @ A.T @ solved[:, 1:]


def prior_variance(p: FloatArray) -> float:
    """Return E Var_p f(x, .) under the prior, by sampling f from it: an oracle of the closed form."""
    rng = np.random.default_rng(0)
    k_C = KERNEL.context(C[:, None], C[:, None])
    f = 1.5 * rng.multivariate_normal(np.zeros(len(C)), k_C, size=200_000)
    return float(np.mean(f**2 @ p - (f @ p) ** 2))


def closed_form(p: FloatArray) -> float:
    return KERNEL.variance - 1.5**2 * float(p @ KERNEL.context(C[:, None], C[:, None]) @ p)


def test_the_closed_form_of_the_scatter_is_the_variance_of_f_over_the_distribution() -> None:
    for p in (P, R):
        assert closed_form(p) == pytest.approx(prior_variance(p), rel=0.02)  # four standard errors of the sample
    assert closed_form(Q) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_posterior_is_that_of_dense_embeddings(maximize: bool) -> None:
    opt = tell_all(optimizer(maximize=maximize), 1.0 if maximize else -1.0)
    mean, covariance = dense(GP, closed_form)
    found = opt.predict(np.repeat(X, len(C))[:, None], np.tile(C, len(X))[:, None])
    np.testing.assert_allclose(found.mean, mean if maximize else -mean, atol=CLOSED_FORM)
    np.testing.assert_allclose(found.std**2, np.diag(covariance), atol=CLOSED_FORM)


def test_units_change_nothing_but_the_units() -> None:
    plain, other = tell_all(optimizer()), optimizer(surrogate=drbo.GP(KERNEL, noise=0.1, offset=7.0, scale=3.0))
    for x, where, y, stderr in TOLD:
        how: dict[str, Any] = {"context_index": where} if isinstance(where, int) else {"distribution": where}
        other.tell(x, 7.0 + 3.0 * y, stderr=None if stderr is None else 3.0 * stderr, **how)
    for x in X:
        a, b = plain.predict(x, 0.5), other.predict(x, 0.5)
        assert b.mean == pytest.approx(7.0 + 3.0 * a.mean, abs=1e-9)
        assert b.std == pytest.approx(3.0 * a.std, abs=1e-9)


def test_a_distribution_on_one_context_is_that_context() -> None:
    hidden, revealed = optimizer(), optimizer()
    hidden.tell(0.2, 1.0, distribution=Q)
    revealed.tell(0.2, 1.0, context_index=3)
    for x in X:
        assert hidden.predict(x, 0.5) == revealed.predict(x, 0.5)


class TestTheoreticalBeta:
    """Lemma 1 needs errors that are sub-Gaussian with (sigma^2 / ridge) times the variance that the model has."""

    rule = drbo.TheoreticalBeta(bound=2.0, noise=0.3)

    def half_range(self, p: FloatArray) -> float:
        """Return a bound of half of max f - min f over the support of p, for any f of norm at most 2."""
        used = np.flatnonzero(p)
        k = KERNEL.variance * drbo.Matern(0.6)(C[used, None], C[used, None])
        return float(0.5 * 2.0 * np.sqrt(np.max(np.diag(k)[:, None] + np.diag(k) - 2.0 * k)))

    def test_the_posterior_has_the_variance_that_the_lemma_needs(self) -> None:
        opt = tell_all(optimizer(beta=self.rule))
        mean, covariance = dense(GP, lambda p: self.half_range(p) ** 2 * GP.ridge / 0.3**2)
        found = opt.predict(np.repeat(X, len(C))[:, None], np.tile(C, len(X))[:, None])
        np.testing.assert_allclose(found.mean, mean, atol=CLOSED_FORM)
        np.testing.assert_allclose(found.std**2, np.diag(covariance), atol=CLOSED_FORM)

    def test_no_f_of_that_norm_has_a_wider_range(self) -> None:
        rng = np.random.default_rng(1)
        used = np.flatnonzero(P)
        k = KERNEL.variance * drbo.Matern(0.6)(C[used, None], C[used, None])
        largest = 0.0
        for _ in range(2000):
            a = rng.normal(size=len(used))
            f = k @ a * (2.0 / math.sqrt(a @ k @ a))
            largest = max(largest, float(np.ptp(f)) / 2.0)
        assert 0.9 * self.half_range(P) < largest <= self.half_range(P) * (1.0 + 1e-12)
        # Never above the bound of |f|, sigma^2 + B^2 in the paper of Kirschner and Krause.
        assert self.half_range(P) <= 2.0 * math.sqrt(KERNEL.variance)

    def test_the_claim_and_the_constant_stay(self) -> None:
        opt = optimizer(beta=self.rule)
        for _ in range(3):
            opt.tell(0.2, 1.0, distribution=P)
        r = opt.recommend(reference=P, radius=0.0)
        assert r.claim.proven
        gain = exact(opt.posterior).information_gain
        assert r.beta == pytest.approx(self.rule.width(gain, GP.ridge, events=2), rel=1e-12)

    def test_the_stricter_of_two_rules_counts(self) -> None:
        opt = tell_all(optimizer(beta=2.0, bound_beta=self.rule))
        _, covariance = dense(GP, lambda p: max(closed_form(p), self.half_range(p) ** 2 * GP.ridge / 0.3**2))
        found = opt.predict(np.repeat(X, len(C))[:, None], np.tile(C, len(X))[:, None])
        np.testing.assert_allclose(found.std**2, np.diag(covariance), atol=CLOSED_FORM)


def equal(a: drbo.Optimizer, b: drbo.Optimizer) -> None:
    assert a.records() == b.records()
    asked = [opt.ask(reference=P, radius=0.0) for opt in (a, b)]
    assert asked[0] == asked[1]
    for opt, s in zip((a, b), asked, strict=True):
        opt.cancel(s)
    for x in X:
        assert a.predict(x, -0.5) == b.predict(x, -0.5)


def test_saved_copied_and_replayed(tmp_path: Path) -> None:
    opt = optimizer(policy=drbo.MeanEmbedding())
    s = opt.ask(reference=P, radius=0.0)
    opt.tell(s, 0.7, distribution=s.reference)
    tell_all(opt)
    opt.tell(0.6, failed=True, context_index=1)
    opt.save(tmp_path / "run.json")
    equal(drbo.Optimizer.load(tmp_path / "run.json"), opt)
    equal(copy.deepcopy(opt), opt)
    equal(pickle.loads(pickle.dumps(opt)), opt)
    fresh = optimizer(policy=drbo.MeanEmbedding())
    fresh.replay(json.loads(json.dumps(opt.records())))
    equal(fresh, opt)


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [1.5, -0.5], [0.5, "x"]])
def test_damaged_distributions_are_found(weights: list[Any]) -> None:
    opt = optimizer()
    opt.tell(0.2, 1.0, distribution=R)
    records = opt.records()
    assert records[0]["weights"] == [0.5, 0.5]
    records[0]["weights"] = weights
    with pytest.raises(ValueError, match="is not a record"):
        optimizer().replay(records)


def test_corrections() -> None:
    opt = tell_all(optimizer())
    revealed = optimizer()
    opt.amend(0, context_index=2)
    opt.amend(2, distribution=P, stderr=0.2)
    opt.amend(3, outcome=0.5)
    opt.amend(1, distribution=R)
    opt.retract(4)
    revealed.tell(0.2, 1.0, context_index=2)
    revealed.tell(0.2, 0.4, distribution=R)
    revealed.tell(0.8, -0.6, distribution=P, stderr=0.2)
    revealed.tell(0.4, 0.5, distribution=P)
    for x in X:
        assert opt.predict(x, -0.5) == revealed.predict(x, -0.5)
    assert [(result.context is None, result.distribution is None) for result in opt.results] == [
        (False, True), (True, False), (True, False), (True, False)
    ]  # fmt: skip
    hidden = opt.results[1]
    assert hidden.distribution is not None
    assert [(float(np.squeeze(c)), p) for c, p in hidden.distribution] == [(-1.0, 0.5), (-0.5, 0.5)]


def test_a_data_driven_reference_counts_what_was_revealed() -> None:
    opt = optimizer(setting=drbo.DataDriven(radius=0.1))
    opt.tell(0.2, 1.0, context_index=4)
    opt.tell(0.2, 1.0, distribution=P)
    assert opt.ask().reference.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    opt.amend(1, context_index=0)
    assert opt.ask().reference.tolist() == [0.5, 0.0, 0.0, 0.0, 0.5]


def test_results_as_tables_pages_and_text(tmp_path: Path) -> None:
    from drbo import console

    opt = tell_all(optimizer(setting=drbo.Simulator(P, 0.0, pick="uncertain")))
    frame = opt.to_frame()
    assert frame["context"].isna().tolist() == [True, False, True, True, False]
    assert console.summary(opt)["last results"][-2]["context"] == {}
    assert opt.report(tmp_path / "page.html").stat().st_size > 1000
    assert len(opt.leave_one_out().outcome) == len(TOLD)


def test_labels_samples_and_given() -> None:
    labels = drbo.Optimizer(
        X, {"young": 3, "old": 1}, ambiguity=drbo.KL(), setting=drbo.Simulator(radius=0.1),
        surrogate=GP,
        policy=drbo.Optimism(),
    )  # fmt: skip
    s = labels.ask()
    labels.tell(s, 1.0, distribution={"young": 0.25, "old": 0.75})
    assert labels.results[0].distribution == (("young", 0.25), ("old", 0.75))
    past = drbo.Samples({"wind": [1.0, 2.0, 4.0, 8.0]})
    box = drbo.Box(x=drbo.Real(0.0, 1.0))
    samples = drbo.Optimizer(
        box, past, ambiguity=drbo.Expectation(), setting=drbo.General(), surrogate=GP, policy=drbo.MeanEmbedding()
    )
    s = samples.ask(radius=0.0)
    samples.tell(s, 1.0, distribution=past)
    samples.tell(s.action, 0.5, distribution=drbo.Samples({"wind": [2.0, 3.0]}))
    k_X, k_C = KERNEL.action, KERNEL.context
    (first, second) = (np.array([c["wind"] for c, _ in result.distribution or ()]) for result in samples.results)
    assert first.tolist() == [1.0, 2.0, 4.0, 8.0]
    assert second.tolist() == [2.0, 3.0]
    unit = [(points[:, None] - 1.0) / 7.0 for points in (first, second)]  # a model sees samples on the unit cube
    embedded = np.array([[k_C(a, b).mean() for b in unit] for a in unit]) * k_X.variance
    noise = [GP.ridge + KERNEL.variance - own for own in np.diag(embedded)]
    at = np.array([[(4.0 - 1.0) / 7.0]])
    k = np.array([k_C(at, a).mean() for a in unit]) * k_X.variance
    solved = np.linalg.solve(embedded + np.diag(noise), np.column_stack([[1.0, 0.5], k]))
    found = samples.predict(s.action, {"wind": 4.0})
    assert found.mean == pytest.approx(k @ solved[:, 0], abs=CLOSED_FORM)
    assert found.std**2 == pytest.approx(KERNEL.variance - k @ solved[:, 1], abs=CLOSED_FORM)


def test_many_evaluations_of_the_same_contexts_and_hidden_ones() -> None:
    """Where all outcomes are revealed they would form a block; a hidden one among them must not get lost in it."""
    rng = np.random.default_rng(0)
    actions, contexts = np.linspace(0.0, 1.0, 40), np.linspace(0.0, 1.0, 8)
    opt = drbo.Optimizer(actions, contexts, ambiguity=drbo.Expectation(), setting=drbo.General(), surrogate=GP)
    opt.tell(0.0, 0.3, distribution=np.full(8, 0.125))
    outcomes = rng.normal(size=(40, 8))
    for x, y in zip(actions, outcomes, strict=True):
        opt.tell(x, y, contexts=contexts)
    k_X, k_C = KERNEL.action(actions[:, None], actions[:, None]), KERNEL.context(contexts[:, None], contexts[:, None])
    K, p = np.kron(k_X, k_C), np.full(8, 0.125)
    A = np.vstack([np.kron(np.eye(40)[0], p), np.eye(320)])
    noise = np.full(321, GP.ridge)
    noise[0] += KERNEL.variance - k_X[0, 0] * (p @ k_C @ p)
    mean = K @ A.T @ np.linalg.solve(A @ K @ A.T + np.diag(noise), np.append(0.3, outcomes))
    found = opt.predict(np.repeat(actions, 8)[:, None], np.tile(contexts, 40)[:, None])
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)


def test_perturbations_scatter_too() -> None:
    errors = drbo.Perturbation(x=[-0.1, 0.0, 0.05, 0.2])
    box = drbo.Box(x=drbo.Real(0.0, 1.0))
    gp = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.ConstantKernel()), noise=0.1)
    opt = drbo.Optimizer(box, errors, ambiguity=drbo.Expectation(), setting=drbo.General(), surrogate=gp)
    opt.tell({"x": 0.5}, 1.0, distribution=errors)
    before = opt.predict({"x": 0.5}, {"x": 0.0})
    told = np.array([c["x"] for c, _ in opt.results[0].distribution or ()])
    k = drbo.RBF(0.3)(0.5 + told[:, None], 0.5 + told[:, None])
    p = np.array([p for _, p in opt.results[0].distribution or ()])
    cross = float(p @ drbo.RBF(0.3)(0.5 + told[:, None], np.array([[0.5]]))[:, 0])
    noise = 0.01 + 1.0 - p @ k @ p
    assert before.mean == pytest.approx(cross / (p @ k @ p + noise), abs=CLOSED_FORM)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"distribution": P, "context_index": 1}, "distribution must not be given with a context"),
        ({"distribution": P, "contexts": [0.0, 0.5]}, "distribution must not be given with a context"),
        ({"distribution": [0.5, 0.5]}, "must hold 5 weights"),
        ({"distribution": [0.5, 0.5, 0.5, 0.0, 0.0]}, "must sum to 1"),
        ({"distribution": drbo.Samples([[0.0]])}, "must be weights"),
    ],
)
def test_what_is_refused(how: dict[str, Any], error: str) -> None:
    opt = optimizer()
    with pytest.raises((TypeError, ValueError), match=error):
        opt.tell(0.2, 1.0, **how)
    assert not opt.history


def test_what_cannot_be_hidden() -> None:
    opt = optimizer()
    with pytest.raises(TypeError, match=r"distribution must not be given with failed=True"):
        opt.tell(0.2, failed=True, distribution=P)
    with pytest.raises(ValueError, match="must hold one number per context, 1"):
        opt.tell(0.2, [1.0, 2.0], distribution=P)
    picked = optimizer(setting=drbo.Simulator(P, 0.1, pick="uncertain"))
    with pytest.raises(TypeError, match="the context was picked with the suggestion"):
        picked.tell(picked.ask(), 1.0, distribution=P)
    learned = optimizer(surrogate=drbo.LearnedGP())
    with pytest.raises(TypeError, match="distribution needs a surrogate with fixed hyper-parameters"):
        learned.tell(0.2, 1.0, distribution=P)
    opt.tell(0.2, [1.0, 2.0], contexts=[0.0, 0.5])
    opt.tell(0.2, failed=True, context_index=0)
    for id_ in (0, 1):
        with pytest.raises(TypeError, match="a result that has no outcome, or several"):
            opt.amend(id_, distribution=P)
    many = drbo.Samples(np.random.default_rng(0).normal(size=(40, 1)), atoms=5)
    wide = drbo.Optimizer(X, many, ambiguity=drbo.MMD(), setting=drbo.General(), surrogate=GP)
    with pytest.raises(ValueError, match="distribution must have at most as many samples as atoms, got 40"):
        wide.tell(0.2, 1.0, distribution=many)
