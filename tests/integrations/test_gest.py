"""The generator of gest-api: its own rules, and Xopt as the host; libEnsemble is one in tests/test_examples.py."""

import importlib
from typing import Any

import numpy as np
import pytest

import drbo

gest_api = pytest.importorskip("gest_api.vocs", reason="pip install 'drbo[gest]'")

from drbo.integrations.gest import RobustGenerator  # noqa: E402

PAST = drbo.Samples({"drift": np.linspace(-1.0, 1.0, 9)}, support=0)
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5)), noise=0.1)


def problem(**more: Any) -> Any:
    given = {"variables": {"x": [0.0, 2.0], "drift": [-3.0, 3.0]}, "objectives": {"f": "MAXIMIZE"}, **more}
    return gest_api.VOCS(**given)


def generator(vocs: Any = None, **more: Any) -> RobustGenerator:
    setting = drbo.Simulator(radius=0.1, pick="uncertain")
    return RobustGenerator(vocs or problem(), contexts=PAST, **{"setting": setting, "surrogate": FIXED, **more})


def f(point: dict[str, Any]) -> float:
    return float(-((point["x"] - 1.0 - 0.3 * point["drift"]) ** 2))


def test_points_have_all_variables_constants_and_an_id() -> None:
    made = generator(problem(constants={"energy": 0.5}))
    assert made.returns_id
    points = made.suggest(3)
    assert [sorted(point) for point in points] == [["_id", "drift", "energy", "x"]] * 3
    assert len({point["_id"] for point in points}) == 3
    assert len(made.suggest()) == 1
    assert made.suggest(0) == []
    assert all(point["energy"] == 0.5 for point in points)
    drifts = set(np.linspace(-1.0, 1.0, 9).tolist())
    assert all(point["drift"] in drifts for point in points)


def test_it_does_what_the_optimizer_does() -> None:
    made = generator()
    setting = drbo.Simulator(radius=0.1, pick="uncertain")
    opt = drbo.Optimizer(drbo.Box(x=(0.0, 2.0)), PAST, setting=setting, surrogate=FIXED)
    for _ in range(5):
        (point,), s = made.suggest(1), opt.ask()
        assert {**s.action, **s.context} == {name: point[name] for name in ("x", "drift")}
        made.ingest([{**point, "f": f(point)}])
        opt.tell(s, f(point))
    assert made.optimizer.recommend().action == opt.recommend().action
    made.finalize()


def test_points_of_others_unknown_ids_and_results_that_come_twice() -> None:
    made = generator()
    made.ingest([{"x": 0.5, "drift": 0.25, "f": -0.1}])
    assert [(r.number, r.outcome) for r in made.optimizer.results] == [(None, -0.1)]
    (point,) = made.suggest(1)
    with pytest.raises(ValueError, match="_id 99 must belong to a suggestion"):
        made.ingest([{**point, "f": 1.0}, {**point, "_id": 99, "f": 1.0}])
    assert made.optimizer.n_told == 1  # nothing of the refused list
    made.ingest([{**point, "f": 1.0}])
    with pytest.raises(ValueError, match="must belong to a suggestion without a result"):
        made.ingest([{**point, "f": 1.0}])
    with pytest.raises(ValueError, match="lacks drift"):
        made.ingest([{"x": 0.5, "f": 1.0}])


def test_a_point_that_the_host_has_moved_is_told_as_it_was_evaluated() -> None:
    made = generator()
    (point,) = made.suggest(1)
    made.ingest([{**point, "x": 1.25, "f": 0.5}])
    (result,) = made.optimizer.results
    assert (result.action, result.outcome, made.optimizer.pending) == ({"x": 1.25}, 0.5, ())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_an_outcome_that_is_not_finite_is_a_failure(value: float | None) -> None:
    made = generator()
    (point,) = made.suggest(1)
    made.ingest([{**point, "f": value}])
    assert [r.failed for r in made.optimizer.results] == [True]


def test_constraints_are_limits_and_the_direction_is_kept() -> None:
    vocs = problem(objectives={"f": "MINIMIZE"}, constraints={"c": ["LESS_THAN", 0.5], "d": ["GREATER_THAN", 1.0]})
    made = generator(vocs)
    own = made.optimizer.configuration
    assert not own.maximize
    assert own.limits == {"c": drbo.AtMost(0.5), "d": drbo.AtLeast(1.0)}
    (point,) = made.suggest(1)
    made.ingest([{**point, "f": 1.0, "c": 0.25, "d": float("nan")}])
    assert made.optimizer.results[0].limits == {"c": 0.25}


def test_conditions_that_nature_picks_are_observables() -> None:
    vocs = problem(variables={"x": [0.0, 2.0]}, observables={"drift"})
    made = generator(vocs, setting=drbo.DataDriven(radius=0.1))
    (point,) = made.suggest(1)
    assert sorted(point) == ["_id", "x"]
    made.ingest([{**point, "drift": 0.5, "f": 1.0}])
    assert made.optimizer.results[0].context == {"drift": 0.5}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"objectives": {"f": "EXPLORE"}}, "one objective, MINIMIZE or MAXIMIZE"),
        ({"objectives": {"f": "MINIMIZE", "g": "MINIMIZE"}}, "one objective"),
        ({"constraints": {"c": ["BOUNDS", 0.0, 1.0]}}, "and c is not"),
        ({"variables": {"x": [0.0, 1.0]}}, "the generator picks must be variables of vocs, and drift is not"),
    ],
)
def test_problems_that_it_cannot_solve_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generator(problem(**more))


@pytest.mark.parametrize(
    "name",
    [
        "test_gen_fails_without_variable",
        "test_gen_fails_without_objective",
        "test_gen_has_constant_alpha",
        "test_suggest_default_single_point",
    ],
)
def test_the_suite_of_the_standard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of gest-api that are about any generator; the others are about what its random one keeps."""
    suite: Any = importlib.import_module("gest_api.tests.test_generator")
    without_bounds = {"variables": {"x": [0.0, 10.0], "y": [-5.0, 5.0]}, "objectives": {"f": "MINIMIZE"}}
    constraints = {"c": ["GREATER_THAN", 5.5], "c2": ["LESS_THAN", -4.0]}
    more = {"constraints": constraints, "constants": {"alpha": 1.0}, "observables": ["drift"]}
    monkeypatch.setattr(suite, "vocs_full", gest_api.VOCS(**without_bounds, **more))
    monkeypatch.setattr(suite, "RandomGenerator", lambda vocs: generator(vocs, setting=drbo.DataDriven(radius=0.1)))
    getattr(suite, name)()


def test_discrete_variables() -> None:
    made = generator(
        problem(variables={"x": {0.5, 1.0, 2.0}, "kind": {"a", "b"}, "drift": [-3.0, 3.0]}), surrogate=None
    )
    point = made.suggest(1)[0]
    assert point["x"] in (0.5, 1.0, 2.0)
    assert point["kind"] in ("a", "b")
    made.ingest([{**point, "f": 1.0}])
    made.ingest([{**made.suggest(1)[0], "f": 0.5}])


def test_numpy_scalars_of_a_host_are_taken() -> None:
    made = generator()
    (point,) = made.suggest(1)
    made.ingest(
        [{**{name: np.float64(value) for name, value in point.items()}, "_id": np.int64(0), "f": np.float64(1)}]
    )
    assert made.optimizer.pending == ()


def test_who_picks_conditions_must_agree_with_the_problem() -> None:
    with pytest.raises(ValueError, match="nature picks must be observables of vocs, and drift is not"):
        generator(setting=drbo.DataDriven(radius=0.1))
    with pytest.raises(TypeError, match="setting must be"):
        generator(setting=drbo.General())
    keyed = drbo.Samples({"drift": np.array([0.0, 1.0])}, keys=["a", "b"])
    with pytest.raises(TypeError, match="contexts must have no keys"):
        RobustGenerator(problem(), contexts=keyed, setting=drbo.Simulator(radius=0.1))


def test_xopt_is_a_host() -> None:
    """Xopt copies the generator, evaluates points of its own, and reports no outcomes of an evaluation that raised."""
    xopt: Any = pytest.importorskip("xopt", reason="pip install xopt, which brings torch: make doors")

    def evaluate(point: dict[str, Any]) -> dict[str, float]:
        if point["x"] > 1.75:
            raise RuntimeError("too much")
        return {"f": f(point), "c": point["x"]}

    made = generator(problem(constraints={"c": ["LESS_THAN", 1.5]}))
    host = xopt.Xopt(generator=made, evaluator=xopt.Evaluator(function=evaluate), strict=False)
    host.evaluate_data({"x": [0.5, 2.0], "drift": [0.25, -0.5]})
    for _ in range(6):
        host.step()
    own = host.generator.optimizer
    assert (made.optimizer.n_told, len(own.results), len(own.pending)) == (0, 8, 0)
    assert [r.action["x"] for r in own.results] == host.data["x"].tolist()
    assert [r.failed for r in own.results] == host.data["xopt_error"].tolist()
    assert own.results[1].failed
    assert [r.outcome for r in own.results if not r.failed] == host.data["f"].dropna().tolist()
    assert [r.limits["c"] for r in own.results if not r.failed] == host.data["c"].dropna().tolist()
