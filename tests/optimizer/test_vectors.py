"""One evaluation, many contexts: what is told, kept, corrected and learned; and outcomes of known precision."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import heating
import robos
from bits import bits
from drbo import GP, RBF, Box, DataDriven, Expectation, General, LearnedGP, Optimizer, Product, Samples, Simulator
from exact import exact, fitted
from tolerances import SOLVER
from twins import TWINS

pytestmark = pytest.mark.usefixtures("still")

X, C = np.linspace(0, 1, 6), np.linspace(0, 1, 5)
MODEL = GP(Product(RBF(0.3), RBF(0.4)), noise=0.1, noise_correlation=0.5)
REFERENCE = np.full(5, 0.2)


def grid(setting: Any = None, **more: Any) -> Optimizer:
    chosen = Simulator(REFERENCE, 0.2, pick="uncertain") if setting is None else setting
    return Optimizer(X, C, setting=chosen, **{"surrogate": MODEL, **more})


def f(x: Any, c: Any) -> Any:
    return np.sin(5 * np.asarray(x)) * (1.0 + np.asarray(c))


def dense(opt: Optimizer, gp: GP, x: float, c: float) -> tuple[float, float]:
    """Return mean and deviation of f(x, c) by the formula, from the results alone; a GP in the outcomes' units."""
    rows = opt.results
    a, b = np.array([r.action for r in rows]), np.array([r.context for r in rows])
    e = np.array([gp.noise if r.stderr is None else r.stderr for r in rows])
    same = np.array([[r.id == s.id for s in rows] for r in rows])
    N = np.outer(e, e) * (gp.noise_correlation * same + (1 - gp.noise_correlation) * np.eye(len(rows)))
    A = gp.kernel.action(a, a) * gp.kernel.context(b, b) + N
    k = (gp.kernel.action(a, np.array([[x]])) * gp.kernel.context(b, np.array([[c]])))[:, 0]
    y = np.array([r.outcome for r in rows])
    return float(k @ np.linalg.solve(A, y)), float(np.sqrt(gp.kernel.variance - k @ np.linalg.solve(A, k)))


# --- telling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [[0.0, 0.5], np.array([[0.0], [0.5]]), ([0.0], [0.5]), pd.DataFrame({"c": [0.0, 0.5]})],
    ids=["list", "array", "points", "frame"],
)
def test_a_vector_is_one_fact_with_one_row_per_outcome(rows: Any) -> None:
    opt = grid(General())
    s = opt.ask(reference=REFERENCE, radius=0.1)
    opt.tell(s, [1.0, 2.0], contexts=rows)
    assert len(opt.history) == 2
    assert opt.n_told == 1
    assert not opt.pending
    told = [(r.id, r.number, float(r.context[0]), r.outcome) for r in opt.results]
    assert told == [(0, 0, 0.0, 1.0), (0, 0, 0.5, 2.0)]
    frame = opt.to_frame()
    assert frame["outcome"].tolist() == [1.0, 2.0]
    assert frame["result"].tolist() == [0, 0]


def test_outcomes_may_be_a_mapping_from_contexts() -> None:
    one, two = grid(), grid()
    one.tell(X[2], {0.0: 1.0, 0.5: 2.0}, stderr={0.5: 0.2, 0.0: 0.1})
    two.tell(X[2], [1.0, 2.0], contexts=[0.0, 0.5], stderr=[0.1, 0.2])
    assert bits(one.history) == bits(two.history)


def test_outcomes_by_label(tmp_path: Path) -> None:
    opt = Optimizer(X, {"young": 30, "old": 10}, setting=Simulator(radius=0.1, pick="uncertain"))
    s = opt.ask(n_contexts=2)
    assert set(s.contexts) <= {"young", "old"}
    opt.tell(s, {"young": 0.8, "old": 0.6}, stderr={"young": 0.1, "old": 0.2})
    opt.tell(X[1], [0.5, 0.4], contexts=["old", "young"])
    rows = [(r.context, r.outcome, r.stderr) for r in opt.results]
    assert rows == [("young", 0.8, 0.1), ("old", 0.6, 0.2), ("old", 0.5, None), ("young", 0.4, None)]
    opt.save(tmp_path / "state.drbo")
    assert bits(Optimizer.load(tmp_path / "state.drbo").ask()) == bits(opt.ask())
    with pytest.raises((TypeError, ValueError), match="contexts"):
        opt.tell(X[0], {"young": 0.8, "odd": 0.6})


def test_a_series_goes_by_its_labels_and_in_order_without_them() -> None:
    opt = Optimizer(X, ["a", "b"], setting=Simulator([1, 1], 0.1, pick="uncertain"))
    opt.tell(opt.ask(n_contexts=2), pd.Series({"b": 1.0, "a": 2.0}))
    assert {r.context: r.outcome for r in opt.results} == {"a": 2.0, "b": 1.0}
    s = opt.ask(n_contexts=2)
    opt.tell(s, pd.Series([3.0, 4.0]))
    assert {r.context: r.outcome for r in opt.results if r.number == s.number} == dict(
        zip(s.contexts, [3.0, 4.0], strict=True)
    )
    with pytest.raises((TypeError, ValueError), match="contexts"):
        opt.tell(opt.ask(n_contexts=2), pd.Series([3.0, 4.0], index=[7, 8]))


def test_standard_errors_by_label_belong_to_their_label() -> None:
    opt = Optimizer([0.0, 1.0], ["young", "old"], setting=Simulator([1, 1], 0.1, pick="uncertain"), surrogate=MODEL)
    opt.tell(0.0, {"young": 1.0, "old": 2.0}, stderr=pd.Series({"old": 0.2, "young": 0.1}))
    assert [(r.context, r.stderr) for r in opt.results] == [("young", 0.1), ("old", 0.2)]
    with pytest.raises(ValueError, match="stderr must map the same contexts as outcome"):
        opt.tell(0.0, {"young": 1.0, "old": 2.0}, stderr=pd.Series([0.2, 0.1]))


def test_rows_of_named_columns() -> None:
    data = {"outdoor": [0.0, 5.0, 20.0], "load": [0.2, 0.4, 0.9]}
    table = pd.DataFrame({"load": [0.3, 0.5], "outdoor": [1.0, 8.0]})
    for contexts in (Samples(data), Samples(data, within=Box(outdoor=(-10.0, 30.0), load=(0.0, 1.0)))):
        opt = Optimizer(Box(x=(0.0, 1.0)), contexts, setting=General())
        opt.tell({"x": 0.5}, [1.0, 2.0], contexts=table)
        opt.tell({"x": 0.5}, [1.0, 2.0], contexts=table.to_dict("records"))
        opt.tell({"x": 0.5}, (1.0, 2.0), contexts=[[1.0, 0.3], [8.0, 0.5]])
        first, second, third = (record.contexts for record in opt.history)  # type: ignore[union-attr]
        assert bits(first) == bits(second) == bits(third)
        assert opt.results[1].context == pytest.approx({"outdoor": 8.0, "load": 0.5})


def test_the_posterior_is_the_dense_formula() -> None:
    opt = grid()
    opt.tell(X[1], [0.3, -0.2, 0.5], contexts=C[:3])
    opt.tell(X[4], 0.7, context=C[3])
    opt.tell(X[2], [0.1, 0.4], contexts=C[[4, 0]], stderr=[0.3, 0.05])
    opt.tell(X[2], 0.2, context=C[1], stderr=0.02)
    for x, c in ((X[0], C[2]), (X[2], C[1]), (X[5], C[4])):
        found = opt.predict(x, c)
        mean, std = dense(opt, MODEL, x, c)
        assert found.mean == pytest.approx(mean, abs=SOLVER)
        assert found.std == pytest.approx(std, abs=SOLVER)


def test_units_and_sign_respect_standard_errors() -> None:
    own = GP(MODEL.kernel, MODEL.noise, noise_correlation=0.5)
    scaled = GP(MODEL.kernel, MODEL.noise, offset=3.0, scale=10.0, noise_correlation=0.5)
    plain, other = grid(surrogate=own), grid(surrogate=scaled, maximize=False)
    plain.tell(X[1], [0.3, -0.2], contexts=C[:2], stderr=[0.3, 0.4])
    other.tell(X[1], [3.0 + 3.0, 3.0 - 2.0], contexts=C[:2], stderr=[3.0, 4.0])
    a, b = plain.predict(X[2], C[1]), other.predict(X[2], C[1])
    assert b.mean == pytest.approx(3.0 + 10.0 * a.mean)
    assert b.std == pytest.approx(10.0 * a.std)


def test_a_learned_model_respects_standard_errors_and_shared_shocks() -> None:
    rng = np.random.default_rng(0)
    opts = [grid(surrogate=LearnedGP(action=RBF(0.5), context=RBF(0.5)), maximize=m) for m in (True, False)]
    rows = [(X[i % 6], f(X[i % 6], C[:3]) + 0.3 * rng.normal(), 0.1 + 0.2 * rng.random(3)) for i in range(12)]
    for opt, sign in zip(opts, (1.0, -1.0), strict=True):
        for i, (x, y, e) in enumerate(rows):
            opt.tell(x, sign * y, contexts=C[:3], stderr=e if i % 2 else None)
    a, b = (opt.predict(X[3], C[1]) for opt in opts)
    assert b.mean == pytest.approx(-a.mean, rel=1e-6)
    assert b.std == pytest.approx(a.std, rel=1e-6)
    fit = fitted(opts[0]._known.fit(opts[0]._known.state, fresh=True))
    assert fit.gp.noise_correlation > 0.5
    # The same by the formula, in standardised units.
    twin = grid(surrogate=GP(fit.gp.kernel, fit.gp.noise, noise_correlation=fit.gp.noise_correlation))
    for i, (x, y, e) in enumerate(rows):
        errors = e / fit.scale if i % 2 else None
        twin.tell(x, (y - fit.offset) / fit.scale, contexts=C[:3], stderr=errors)
    mean, std = dense(twin, twin.configuration.surrogate, X[3], C[1])  # type: ignore[arg-type]
    assert a.mean == pytest.approx(fit.offset + fit.scale * mean, rel=1e-6)
    assert a.std == pytest.approx(fit.scale * std, rel=1e-6)


def false_certificates(runs: int, surrogate: Any, correlation: float) -> int:
    """Return how often a certificate of two deviations was false, for f drawn from the model and shocks."""
    k_X, k_C = MODEL.kernel.action(X[:, None], X[:, None]), MODEL.kernel.context(C[:, None], C[:, None])
    root = np.linalg.cholesky(np.kron(k_X, k_C) + 1e-9 * np.eye(30))
    false = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        truth = (root @ rng.normal(size=30)).reshape(6, 5)
        opt = grid(surrogate=surrogate, ambiguity=Expectation(), bound_beta=2.0)
        for i in [*range(6)] * 3:
            shock, own = np.sqrt(correlation) * rng.normal(), np.sqrt(1.0 - correlation) * rng.normal(size=5)
            opt.tell(X[i], truth[i] + shock + own, contexts=C)
        found = opt.recommend()
        false += found.value > truth[found.action_index].mean()
    return false


def test_certificates_that_ignore_a_shared_shock_are_false_too_often() -> None:
    known, ignored = (GP(MODEL.kernel, 1.0, noise_correlation=r) for r in (0.9, 0.0))
    assert false_certificates(150, known, 0.9) <= 7  # 2.3% of 150 are expected
    assert false_certificates(150, ignored, 0.9) >= 12


@pytest.mark.slow
def test_a_learned_shock_makes_certificates_wider() -> None:
    k_X, k_C = MODEL.kernel.action, MODEL.kernel.context
    learned = LearnedGP(action=k_X, context=k_C)
    ignored = LearnedGP(action=k_X, context=k_C, noise_correlation=0.0)
    assert false_certificates(60, learned, 0.9) < false_certificates(60, ignored, 0.9)


# --- U15 and S11: which contexts count as drawn -----------------------------------------------------------------------


def test_ten_orders_told_for_one_days_demand_leave_the_reference_alone() -> None:
    opt = grid(DataDriven())
    for c in (C[0], C[1], C[2]):
        opt.tell(X[0], 1.0, context=c)
    before = opt.ask().reference
    for x in X:
        opt.tell(x, [1.0, 1.1, 0.9], contexts=[C[4]] * 3, drawn=False)
    np.testing.assert_array_equal(opt.ask().reference, before)
    opt.tell(X[0], [1.0, 1.0], contexts=[C[4], C[4]])
    np.testing.assert_allclose(opt.ask().reference, [0.2, 0.2, 0.2, 0.0, 0.4])


# --- several contexts for one action ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pick", ["uncertain", "informative"])
def test_several_contexts_are_picked_one_after_the_other(pick: Any) -> None:
    opt = grid(Simulator(REFERENCE, 0.2, pick=pick))
    opt.tell(X[2], 0.5, context=C[2])
    s = opt.ask(n_contexts=3)
    assert len(s.contexts) == 3
    assert s.context is None
    assert str(s).count(";") == 2
    # By hand: an ask of one context each, at the same action.
    belief = opt.posterior
    chosen = [float(c[0]) for c in s.contexts]
    if pick == "uncertain":
        from drbo.models.data import Observation

        for j, c in enumerate(chosen):
            _, variance = exact(belief).of_action(s.action_point)
            assert variance[np.flatnonzero(c == C)[0]] == pytest.approx(variance.max())
            belief = belief.with_more([Observation.of(s.action_point.coordinates, np.array([c]), None, before=j)])
    opt.tell(s, [1.0, 2.0, 3.0])
    told = opt.results[1:]
    assert [float(r.context[0]) for r in told] == chosen
    assert [r.outcome for r in told] == [1.0, 2.0, 3.0]
    one = opt.ask(n_contexts=1)
    assert one.contexts[0] == one.context
    two = opt.ask(2, n_contexts=2)
    assert [len(t.contexts) for t in two] == [2, 2]


def test_a_simulator_may_tell_of_more_contexts_than_were_asked_for() -> None:
    opt = grid()
    s = opt.ask()
    opt.tell(s, [1.0, 2.0, 3.0], contexts=C[:3])
    assert [r.number for r in opt.results] == [0, 0, 0]
    assert not opt.pending


def test_an_evaluation_in_several_contexts_may_fail() -> None:
    opt = grid()
    s = opt.ask(n_contexts=2)
    opt.tell(s, failed=True)
    assert [r.failed for r in opt.results] == [True, True]
    assert opt.recommend().action != s.action
    opt.tell(X[1], failed=True, contexts=C[:2])
    opt.ask()


@pytest.mark.parametrize("setting", [General(), DataDriven()])
def test_several_contexts_are_refused_where_nature_picks_them(setting: Any) -> None:
    opt = grid(setting)
    more: Any = {"reference": REFERENCE, "radius": 0.1} if isinstance(setting, General) else {}
    with pytest.raises(TypeError, match="n_contexts must be 1"):
        opt.ask(n_contexts=2, **more)
    assert not opt.history


# --- corrections ------------------------------------------------------------------------------------------------------


def stated(opt: Optimizer) -> object:
    """Return what a recommendation states; its `trust.surprises` knows of corrections."""
    r = opt.recommend(radius=0.1)
    return bits((r.action, r.value, r.weights, r.trust.guess, r.trust.stressed, r.beta))


def test_a_vector_is_retracted_as_a_whole() -> None:
    opt, without = grid(), grid()
    for one in (opt, without):
        one.tell(X[1], [0.1, 0.2], contexts=C[:2])
    opt.tell(X[2], [5.0, 6.0, 7.0], contexts=C[:3])
    opt.retract(opt.results[3])
    assert [r.outcome for r in opt.results] == [0.1, 0.2]
    assert stated(opt) == stated(without)


def test_standard_errors_stay_with_their_contexts() -> None:
    opt = Optimizer([0.0, 1.0], ["young", "old"], setting=Simulator([1, 1], 0.1, pick="uncertain"), surrogate=MODEL)
    opt.tell(0.0, {"young": 1.0, "old": 2.0}, stderr={"young": 0.1, "old": 0.2})
    opt.amend(0, {"old": 3.0, "young": 4.0})
    assert {r.context: (r.outcome, r.stderr) for r in opt.results} == {"old": (3.0, 0.2), "young": (4.0, 0.1)}
    opt.amend(0, contexts=["young", "old"])  # the contexts alone were mixed up
    assert {r.context: (r.outcome, r.stderr) for r in opt.results} == {"young": (3.0, 0.2), "old": (4.0, 0.1)}
    opt.amend(0, {"old": 5.0})
    assert [(r.context, r.outcome, r.stderr) for r in opt.results] == [("old", 5.0, 0.1)]
    opt.amend(0, 6.0, context="young")
    assert [(r.context, r.outcome, r.stderr) for r in opt.results] == [("young", 6.0, 0.1)]
    with pytest.raises(ValueError, match="stderr must be given if amended outcomes have other contexts"):
        opt.amend(0, {"old": 5.0, "young": 6.0})


def test_a_vector_is_amended_with_a_vector() -> None:
    opt, right = grid(), grid()
    opt.tell(X[1], [0.1, 0.2], contexts=C[:2], stderr=0.3)
    right.tell(X[1], [0.1, 0.3, 0.5], contexts=C[1:4], stderr=[0.1, 0.2, 0.3])
    opt.amend(0, [0.1, 0.3])
    assert [(r.outcome, r.stderr) for r in opt.results] == [(0.1, 0.3), (0.3, 0.3)]
    opt.amend(0, {C[1]: 0.1, C[2]: 0.3, C[3]: 0.5}, stderr=[0.1, 0.2, 0.3])
    assert stated(opt) == stated(right)
    opt.amend(opt.results[0], stderr=0.7)
    assert [r.stderr for r in opt.results] == [0.7] * 3
    with pytest.raises(ValueError, match="one number per context, 3"):
        opt.amend(0, 1.0)
    with pytest.raises(ValueError, match="one number per context, 2"):
        opt.amend(0, contexts=C[:2])


# --- the same bits ----------------------------------------------------------------------------------------------------


def drive(make: Callable[[], Optimizer], between: Callable[[Optimizer], Optimizer]) -> Any:
    """Return all answers of a run with vectors, failures, pending evaluations, standard errors and corrections."""
    opt = make()
    rng = np.random.default_rng(1)

    def tell(s: Any, **more: Any) -> None:
        opt.tell(s, rng.normal(size=len(s.contexts)).tolist(), **more)

    for step in range(8):
        opt = between(opt)
        s = opt.ask(n_contexts=1 + step % 3)
        opt = between(opt)
        if step == 2:
            opt.tell(s, failed=True)
        elif step != 4:
            tell(s, stderr=0.2 if step % 2 else None)
    opt.retract(3)
    opt.amend(0, stderr=0.1)
    opt = between(opt)
    return bits([opt.history, opt.pending, opt.results, opt.recommend(), opt.recommend_iterate(), opt.ask()])


@functools.cache
def undisturbed(make: Any) -> Any:
    return drive(make, lambda opt: opt)


def heated() -> Optimizer:
    return heating.make(Simulator(radius=0.2, pick="uncertain"))


@pytest.mark.parametrize(
    ("make", "twin"),
    [
        *(pytest.param(grid, twin, id=f"grid-{name}") for name, twin in TWINS.items()),
        *(pytest.param(heated, TWINS[name], id=f"box-{name}") for name in ("saved", "dropped")),
    ],
)
def test_a_twin_goes_on_with_the_same_bits(make: Any, twin: Any, tmp_path: Path) -> None:
    assert drive(make, lambda opt: twin(opt, tmp_path / "state.drbo")) == undisturbed(make)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "more", "match"),
    [
        (1.0, {"contexts": C[:2]}, "outcome must hold one number per context, 2"),
        ([1.0, 2.0, 3.0], {"contexts": C[:2]}, "one number per context, 2, got 3"),
        ([1.0, np.nan], {"contexts": C[:2]}, r"outcome\[1\] must be finite"),
        ([1.0, "a"], {"contexts": C[:2]}, "outcome"),
        ([1.0, 1e200], {"contexts": C[:2]}, r"outcome\[1\] must not exceed"),
        ([1.0, 2.0], {"context": C[0]}, "one number per context, 1"),
        ([1.0, 2.0], {"contexts": [0.0, 0.123]}, r"contexts\[1\] must be one of the contexts"),
        ([], {"contexts": []}, "at least one context"),
        ([1.0, 2.0], {"contexts": {0.0, 0.5}}, "contexts must be a sequence"),
        ([[1.0], [2.0, 3.0]], {"contexts": C[:2]}, "outcome must hold one number per context, 2"),
        ([1.0], {"contexts": 0.5}, "contexts must be a sequence"),
        ([1.0], {"contexts": {"c": [0.5]}}, "contexts must be a sequence"),
        ([1.0, 2.0], {"contexts": C[:2], "context": C[0]}, "contexts must not be given with"),
        ({0.0: 1.0}, {"contexts": C[:1]}, "contexts must not be given with a mapping"),
        ({0.0: 1.0}, {"context": C[0]}, "contexts must not be given with"),
        ({}, {}, "must not be empty"),
        ({0.0: 1.0}, {"stderr": {0.5: 1.0}}, "stderr must map the same contexts"),
        (1.0, {"context": C[0], "stderr": {0.5: 1.0}}, "stderr"),
        (1.0, {"context": C[0], "stderr": -1.0}, "stderr must be from 0"),
        (1.0, {"context": C[0], "stderr": np.inf}, "stderr must be finite"),
        ([1.0, 2.0], {"contexts": C[:2], "stderr": [1.0]}, "stderr must hold one number per context, 2"),
        (None, {"context": C[0], "stderr": 1.0, "failed": True}, "stderr must not be given with failed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_and_nothing_is_recorded(outcome: Any, more: dict[str, Any], match: str) -> None:
    opt = grid(General())
    with pytest.raises((TypeError, ValueError), match=match):
        opt.tell(X[0], outcome, **more)
    assert not opt.history


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    from drbo.knowledge import history

    opt = grid()
    opt.tell(X[0], [1.0, 2.0], contexts=C[:2], stderr=0.5)
    told = opt.history[0]
    assert isinstance(told, history.Told)
    object.__setattr__(told, "outcomes", {"": history.Readings((1.0, 2.0), (0.5,))})
    opt.save(tmp_path / "state.drbo")
    with pytest.raises(ValueError, match="standard errors of 2 outcomes"):
        Optimizer.load(tmp_path / "state.drbo")


def test_a_file_of_before_loads(tmp_path: Path) -> None:
    """Records without the fields of vectors are of one context, with errors that are not known."""
    import json
    import zlib

    opt = robos.make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"), ambiguity=Expectation())
    robos.run(opt, 2)
    opt.save(tmp_path / "new.drbo")
    crc, lines = 0, []
    for line in (tmp_path / "new.drbo").read_text().splitlines():
        record = json.loads(line)["record"]
        record.pop("stderrs", None)
        for proposal in record.get("proposals", ()):
            proposal.pop("more_contexts")
        text = json.dumps(record, separators=(",", ":"))
        crc = zlib.crc32(text.encode(), crc)
        lines.append(f'{{"crc":"{crc:08x}","record":{text}}}\n')
    (tmp_path / "old.drbo").write_text("".join(lines))
    assert bits(Optimizer.load(tmp_path / "old.drbo").history) == bits(opt.history)
