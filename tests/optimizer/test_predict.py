"""Predictions in the user's units: one, or many at once; arrays and frames in, the same out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
import heating
from drbo import GP, RBF, LearnedGP, Optimizer, Product, Simulator
from drbo.knowledge import Prediction
from drbo.models.regression import ExactPosterior
from exact import exact

X, C = np.array([[0.0, 1.0], [0.5, 2.0], [1.0, 4.0]]), np.linspace(0.0, 1.0, 5)
CLOSE = 1e-9
"""Relative to the amplitude of f: many rows are solved at once, which rounds differently."""


def grid(**more: Any) -> Optimizer:
    setting = Simulator(np.full(5, 0.2), 0.1, pick="uncertain")
    opt = Optimizer(X, C, setting=setting, surrogate=GP(Product(RBF(0.5), RBF(0.5)), 0.1), **more)
    for i in range(3):
        opt.tell(X[i], float(np.sin(i)), context_index=i)
    return opt


def house(**more: Any) -> Optimizer:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), **more)
    heating.run(opt, 4)
    return opt


ACTIONS = pd.DataFrame(
    {"mode": ["eco", "boost", "eco"], "stages": [1, 4, 2], "gain": [0.01, 0.1, 1.0], "setpoint": [18.0, 21.0, 24.0]},
    index=["a", "b", "c"],
)
WEATHER = heating.HISTORY.iloc[[3, 40, 71]].set_axis(["a", "b", "c"])


def check(opt: Optimizer, many: Any, actions: Any, contexts: Any) -> None:
    """Check the rows of a prediction against one call per row."""
    each = [opt.predict(x, c) for x, c in zip(actions, contexts, strict=True)]
    for field in ("mean", "std", "lower", "upper"):
        column = getattr(many, field) if isinstance(many, Prediction) else many[field]
        np.testing.assert_allclose(column, [getattr(one, field) for one in each], rtol=0.0, atol=CLOSE)


@pytest.mark.parametrize("maximize", [True, False])
def test_arrays_of_a_finite_sets_points(maximize: bool) -> None:
    opt = grid(maximize=maximize)
    p = opt.predict(X, C[:3, None])
    assert isinstance(p, Prediction)
    assert p.mean.shape == p.upper.shape == (3,)
    assert (p.lower <= p.mean).all()
    assert (p.mean <= p.upper).all()
    assert not p.mean.flags.writeable
    check(opt, p, X, C[:3])
    check(opt, opt.predict(X[[2, 0]].tolist(), C[[0, 4], None].tolist()), X[[2, 0]], C[[0, 4]])


def test_one_value_is_paired_with_every_row() -> None:
    opt = grid()
    check(opt, opt.predict(X[1], C[:, None]), [X[1]] * 5, C)
    check(opt, opt.predict(X, C[2]), X, [C[2]] * 3)
    assert opt.predict(X[1], C[1]).mean == pytest.approx(opt.predict(X[[1]], C[1]).mean[0])
    assert isinstance(opt.predict(X[1], C[1]).mean, float)


def test_lists_of_mappings() -> None:
    opt = house()
    actions, contexts = ACTIONS.to_dict("records"), WEATHER.to_dict("records")
    p = opt.predict(actions, contexts)
    assert isinstance(p, Prediction)
    check(opt, p, actions, contexts)
    check(opt, opt.predict(actions, WEATHER.to_numpy()), actions, contexts)
    rows = [row for _, row in WEATHER.iterrows()]  # rows of a frame
    check(opt, opt.predict(actions[0], rows), [actions[0]] * 3, contexts)


@pytest.mark.parametrize("surrogate", [heating.FIXED, LearnedGP()], ids=["fixed", "learned"])
def test_a_frame_in_gives_a_frame_out(surrogate: Any) -> None:
    opt = house(surrogate=surrogate)
    actions, contexts = ACTIONS.to_dict("records"), WEATHER.to_dict("records")
    both = opt.predict(ACTIONS, WEATHER)
    assert list(both.columns) == ["mean", "std", "lower", "upper"]
    assert list(both.index) == ["a", "b", "c"]
    check(opt, both, actions, contexts)
    one = opt.predict(actions[1], WEATHER)
    assert list(one.index) == ["a", "b", "c"]
    check(opt, one, [actions[1]] * 3, contexts)
    check(opt, opt.predict(ACTIONS, contexts[0]), actions, [contexts[0]] * 3)
    # A table of everything: each takes the columns of its own parameters, in any order.
    whole = ACTIONS.join(WEATHER).assign(outcome=0.0)
    pd.testing.assert_frame_equal(opt.predict(whole, whole), both)


def test_a_frame_of_a_finite_set() -> None:
    opt = grid()
    frame = pd.DataFrame(X, columns=["p", "q"], index=[7, 8, 9])
    found = opt.predict(frame, pd.DataFrame({"c": C[:3]}, index=[7, 8, 9]))
    assert list(found.index) == [7, 8, 9]
    check(opt, found, X, C[:3])


def test_no_row_gives_no_row() -> None:
    opt = house()
    assert opt.predict(ACTIONS.iloc[:0], WEATHER.iloc[0]).shape == (0, 4)
    assert grid().predict(np.empty((0, 2)), C[0]).mean.shape == (0,)


def test_before_the_first_outcome_bounds_are_infinite() -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    found = opt.predict(ACTIONS, WEATHER)
    assert found["mean"].isna().all()
    assert found["std"].isna().all()
    assert (found["lower"] == -np.inf).all()
    assert (found["upper"] == np.inf).all()


def test_all_rows_are_one_call_of_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    opt, plain = house(), ExactPosterior.predict
    calls: list[int] = []

    def counted(self: ExactPosterior, x: Any, c: Any) -> Any:
        calls.append(len(x))
        return plain(self, x, c)

    monkeypatch.setattr(ExactPosterior, "predict", counted)
    opt.predict(ACTIONS, WEATHER)
    assert calls == [3]


@pytest.mark.parametrize(
    ("action", "context", "message"),
    [
        (ACTIONS, WEATHER.iloc[:2], "action and context must have equally many rows"),
        (ACTIONS, WEATHER.set_axis([1, 2, 3]), "must have the same index"),
        (ACTIONS.drop(columns="gain"), WEATHER, r"action lacks the column\(s\) gain; it has mode, stages, setpoint"),
        (ACTIONS.assign(gain=[0.1, 5.0, 0.1]), WEATHER, r"action\[1\]\['gain'\] must be from"),
        (ACTIONS, WEATHER.assign(load=[0.1, np.nan, 0.2]), r"context\[1\]\['load'\] must be finite"),
    ],
)
def test_what_does_not_fit_is_named(action: Any, context: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        house().predict(action, context)


def test_a_query_of_many_changes_nothing() -> None:
    opt, other = house(), house()
    opt.predict(ACTIONS, WEATHER)
    assert len(opt.history) == len(other.history)
    assert opt.ask() == other.ask()


def test_contexts_of_a_box() -> None:
    box = drbo.Box(temperature=(0.0, 10.0), group=drbo.Categorical("young", "old"))
    opt = Optimizer(np.linspace(0, 1, 4), box, setting=Simulator(radius=0.1, pick="uncertain"))
    for k in range(4):
        opt.tell(k / 3, float(k), context={"temperature": 2.0 * k, "group": "old"})
    frame = pd.DataFrame({"group": ["old", "young"], "temperature": [1.0, 9.0]})
    check(opt, opt.predict(1.0, frame), [1.0, 1.0], frame.to_dict("records"))


def test_a_posterior_that_was_taken_never_changes() -> None:
    """V7: in 0.2 a posterior moved when the optimizer was asked on other samples, told and asked again."""
    rng = np.random.default_rng(0)
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)),
        drbo.Samples(rng.random((20, 1))),
        ambiguity=drbo.MMD(),
        setting=drbo.General(),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1),
    )
    past, forecast = drbo.Samples(rng.random((20, 1))), drbo.Samples(rng.random((15, 1)))
    for i in range(4):
        opt.tell(opt.ask(reference=past, radius=0.1), float(i), context=[0.2 * i])
    taken = opt.posterior
    where = np.linspace(0.1, 0.9, 5)[:, None]
    before, n = taken.predict(where, where), exact(taken).n_observations
    for i in range(6):
        s = opt.ask(reference=forecast, radius=0.2)
        opt.tell(s, 10.0 + i, context=[0.2 * (i % 4)])
        opt.recommend()
    np.testing.assert_array_equal(taken.predict(where, where), before)
    assert exact(taken).n_observations == n == 4
    assert np.abs(opt.posterior.predict(where, where)[0] - before[0]).max() > 0.1


def test_without_bounds_the_mean_is_the_same() -> None:
    opt = house()
    whole, part = (opt.predict(ACTIONS, WEATHER, bounds=bounds) for bounds in (True, False))
    pd.testing.assert_frame_equal(whole[["mean", "std"]], part[["mean", "std"]])
    assert part[["lower", "upper"]].isna().all(axis=None)
    one = opt.predict(ACTIONS.iloc[0].to_dict(), WEATHER.iloc[0].to_dict(), bounds=False)
    assert one.mean == pytest.approx(whole["mean"].iloc[0], abs=CLOSE)
    assert np.isnan([one.lower, one.upper]).all()
