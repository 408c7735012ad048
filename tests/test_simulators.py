"""The bench of simulators and the screen of variants: on toys, made-up numbers, and the simulators installed."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import drbo
import screen
import screen_problems
import simulators
from drbo.experiments.records import Table
from intervals import clopper_pearson, paired_ratio
from simulators import Cache, Simulator, rounded
from simulators import run as bench
from tolerances import CLOSED_FORM

PACKAGES = {
    "battery": "pybamm",
    "pendulum": "mujoco",
    "swimmer": "mujoco",
    "feeder": "pandapower",
    "emergency": "simpy",
    "survival": "sksurv",
    "reactor": "scipy",
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(simulators.FOLDER, str(tmp_path / "cache"))


def toy(maximize: bool = True, slope: float = -1.0) -> Simulator:
    """Return f(x, t) = x + slope t on [0, 10] with samples at 1, 2 and 3."""
    return Simulator(
        name="toy",
        version=1,
        actions=drbo.Box(x=(0.0, 1.0)),
        contexts=drbo.Samples({"t": [1.0, 2.0, 3.0]}, within=drbo.Box(t=(0.0, 10.0))),
        ambiguity=drbo.Wasserstein(),
        radii=(0.5, 4.0),
        meaning=("a bit", "a lot"),
        shifted=({"t": 6.0}, {"t": 8.0}),
        function=lambda action, context: float(action["x"] + slope * context["t"]),
        maximize=maximize,
        grid=11,
    )


def test_the_truth_of_a_linear_function_is_its_mean_less_slope_times_radius() -> None:
    for radius in (0.0, 0.5, 4.0, 8.0):
        assert toy().truth({"x": 0.25}, radius) == pytest.approx(0.25 - 2.0 - radius, abs=CLOSED_FORM)
    assert toy().truth({"x": 0.25}, 100.0) == pytest.approx(0.25 - 10.0)  # the edge of the range


def test_the_truth_of_a_cost_is_its_largest_expectation() -> None:
    assert toy(maximize=False, slope=1.0).truth({"x": 0.25}, 0.5) == pytest.approx(2.75, abs=CLOSED_FORM)


def test_the_truth_of_labels_moves_mass_to_the_worst() -> None:
    scores = {"a": 1.0, "b": 2.0, "c": 4.0}
    one = Simulator(
        name="labels",
        version=1,
        actions=drbo.Box(x=(0.0, 1.0)),
        contexts={"a": 1.0, "b": 1.0, "c": 2.0},
        ambiguity=drbo.TotalVariation(),
        radii=(0.1, 0.3),
        meaning=("", ""),
        shifted=("a", "a", "b", "c"),
        function=lambda action, context: action["x"] * scores[context],
    )
    # the mean is 2.75; a tenth of the mass goes from c to a
    assert one.truth({"x": 1.0}, 0.1) == pytest.approx(2.75 - 0.1 * 3.0, abs=CLOSED_FORM)
    assert one.in_shifted({"x": 1.0}) == pytest.approx(2.0)
    assert one.distance(one.shifted) == pytest.approx(0.25)


def test_further_contexts_can_only_lower_the_truth() -> None:
    cliff = Simulator(**{**vars(toy()), "function": lambda _, context: -float(context["t"] == 4.5)})
    assert cliff.truth({"x": 0.0}, 0.5) == 0.0  # no point of the grid is at 4.5
    assert cliff.truth({"x": 0.0}, 0.5, [{"t": 4.5}]) == pytest.approx(-0.5 / 1.5, abs=CLOSED_FORM)


def test_the_distance_of_shifted_samples() -> None:
    assert toy().distance(toy().shifted) == pytest.approx(5.0, abs=CLOSED_FORM)


def test_an_evaluation_is_made_once_for_all_processes(tmp_path: Path) -> None:
    calls = []
    for _ in range(2):
        one = Cache("toy", 1, tmp_path)
        assert one.get("key", lambda: calls.append(1) or 0.1 + 0.2) == 0.1 + 0.2  # type: ignore[func-returns-value]
        assert len(one) == 1
    assert calls == [1]
    assert len(Cache("toy", 2, tmp_path)) == 0  # another version


def test_inputs_are_rounded_before_they_are_evaluated() -> None:
    seen: list[object] = []
    one = Simulator(**{**vars(toy()), "function": lambda action, _: seen.append(dict(action)) or 1.0})  # type: ignore[func-returns-value]
    one.evaluate({"x": 1.0 / 3.0}, {"t": np.float64(2.0)})
    one.evaluate({"x": 1.0 / 3.0 + 1e-13}, {"t": 2.0})
    assert seen == [{"x": 0.333333333}]
    assert rounded({"n": np.int64(3), "v": np.array([-0.0, 1.23456789012])}) == {"n": 3, "v": [0.0, 1.23456789]}


@pytest.mark.parametrize(("count", "total"), [(0, 300), (13, 56), (1, 320), (5, 5)])
def test_limits_of_a_share_agree_with_scipy(count: int, total: int) -> None:
    exact = binomtest(count, total).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, total) == pytest.approx((exact.low, exact.high))


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        clopper_pearson(3, 2)


def test_a_paired_ratio_is_a_geometric_mean() -> None:
    ratio, low, high = paired_ratio([1.0, 8.0], [2.0, 1.0])
    assert ratio == pytest.approx(2.0)
    assert (low, high) == pytest.approx((0.5, 8.0))  # both resampled twice
    assert paired_ratio([3.0] * 5, [2.0] * 5) == pytest.approx((1.5, 1.5, 1.5))
    assert paired_ratio([0.0, 0.1], [0.1, 0.0], floor=0.1)[0] == 1.0


def test_the_interval_of_a_paired_ratio_covers() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        ours, theirs = np.exp(rng.normal(math.log(1.4), 1.0, 50)), np.ones(50)
        _, low, high = paired_ratio(ours, theirs)
        inside += low <= 1.4 <= high
    assert 0.88 <= inside / 200 <= 0.99


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="must be pairs"):
        paired_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="must be positive"):
        paired_ratio([0.0], [1.0])


def test_a_run_records_bounds_and_where_evaluations_went() -> None:
    rows, where = bench.run(toy(), 0.5, 0, (4, 6))
    assert rows["evaluations"].tolist() == [4, 6]
    assert rows["truth"] == pytest.approx(rows["truth"][0] * np.ones(2), abs=1.0)
    assert len(where["c1"]) == 6
    assert where["c1"].min() >= 0.0
    assert where["c1"].max() <= 1.0
    zero, _ = bench.run(toy(), 0.0, 0, (4,))
    assert zero["radius"].tolist() == [0.0, 0.5, 4.0]
    assert np.isnan(zero["bound"]).tolist() == [False, True, True]
    assert np.diff(zero["truth"]) == pytest.approx([-0.5, -3.5])  # one action, three goals


def made_up(method: str, bounds: list[float], truths: list[float]) -> Table:
    rows = [
        ("toy", method, 0.5, seed, 20, bound, truth, 1.0, 2.0, 0.25, "checked" if seed else "refuted", 0.0, 1.0)
        for seed, (bound, truth) in enumerate(zip(bounds, truths, strict=True))
    ]
    return {name: np.array(column) for name, column in zip(bench.COLUMNS, zip(*rows, strict=True), strict=True)}


def test_the_table_counts_false_bounds_of_rewards_and_costs() -> None:
    default, zero = (
        made_up("default", [1.0, 3.0, 2.0], [2.0, 2.0, 2.0]),
        made_up("radius zero", [0.0] * 3, [1.0, 2.0, 3.0]),
    )
    both = {name: np.concatenate([default[name], zero[name]]) for name in default}
    text = bench.tables(both, {"toy": True})
    low, high = clopper_pearson(1, 3)
    assert f"| toy | 0.5 | 3 | 1 | 33.3% ({low:.1%} to {high:.1%}) | 1 | 0 | 0.00 | 1 of 2 | 25% | 1.0 |" in text
    assert "| toy | 0.5 | 20 | 2 +- 0 | 2 +- 0.58 | 3 | 1 | 1 |" in text
    # of a cost, the bound 1 of the truth 2 is the false one; 3 is safe
    assert bench.slack(default, {"toy": False}).tolist() == [-0.5, 0.5, 0.0]


def screened(values: list[float], bounds: list[float]) -> Table:
    pairs = enumerate(zip(values, bounds, strict=True))
    rows = [("flat", "robust", seed, 20, value, bound, 2.0, 10.0, 0.0) for seed, (value, bound) in pairs]
    return {name: np.array(column) for name, column in zip(screen.COLUMNS, zip(*rows, strict=True), strict=True)}


def test_the_screen_pairs_by_seed_and_prints_ratios() -> None:
    ours, theirs = screened([9.0, 8.0], [8.0, 9.0]), screened([8.0, 6.0, 0.0], [7.0, 5.0, 0.0])
    mine, other = screen.paired(ours, theirs)
    assert other["seed"].tolist() == [0, 1]
    assert screen.regrets(mine, other)[0] == pytest.approx([10.0, 20.0])
    text = screen.tables("mine", ours, theirs)
    assert "| robust | 20 | 2 | 0.50 (0.50 to 0.50) | 1 (1.3% to 98.7%) | 0 (0.0% to 84.2%) | 0.00 | 0.50 |" in text


def test_the_best_action_may_be_one_that_a_variant_recommended() -> None:
    assert screen.regrets(screened([20.0], [0.0]), screened([10.0], [0.0]))[1] == pytest.approx([50.0])


def test_a_variant_of_ones_own_is_found_by_its_module() -> None:
    assert screen.variant("screen:goal") is screen.goal  # type: ignore[comparison-overlap]
    with pytest.raises(ValueError, match="module:function or one of default"):
        screen.variant("nothing")


def test_the_screen_has_20_problems() -> None:
    assert len(screen_problems.CHEAP) == 20


@pytest.mark.parametrize("name", ["cliff at the edge", "uneven noise", "corner"])
def test_the_set_of_the_screen_is_that_of_its_optimizer(name: str) -> None:
    task = screen_problems.task_of(name, 0)
    box = drbo.Box({f"x{k + 1}": (0.0, 1.0) for k in range(task.problem.d_x)})
    optimizer = drbo.Optimizer(box, task.samples, ambiguity=drbo.MMD(), setting=drbo.Simulator(radius=0.1), seed=0)
    for _ in range(3):
        suggestion = optimizer.ask()
        context = np.array([*suggestion.context.values()] if task.cheap.ranged else suggestion.context)
        action = np.array([*suggestion.action.values()])
        optimizer.tell(suggestion, float(task.problem.function(action, context)))
    r = optimizer.recommend()
    points = np.array([[*c.values()] if task.cheap.ranged else c for c in r.contexts])
    draws = {tuple(np.round(c, 9)) for c in task.draws}
    own = [tuple(np.round(c, 9)) in draws for c in points]
    assert float(np.asarray(r.reference)[own].sum()) == pytest.approx(1.0)
    scales = np.ones(task.problem.d_c) if task.cheap.ranged else np.ptp(task.draws, axis=0)
    assert drbo.MMD().on(points, scales).distance(r.weights, r.reference) <= 0.1 * (1.0 + 1e-6)


def test_a_screen_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "CHECKPOINTS", (3, 5))
    screen.sweep(tmp_path, ["default"], ["two optima"], ["robust", "risk-neutral"], range(1), 1)
    first = screen.read(tmp_path, "default")
    assert first["evaluations"].tolist() == [3, 5] * 2
    monkeypatch.setattr(screen, "run", None)  # nothing is left to run
    screen.sweep(tmp_path, ["default"], ["two optima"], ["robust", "risk-neutral"], range(1), 1)
    assert screen.read(tmp_path, "default")["value"].tolist() == first["value"].tolist()
    assert (first["value"] <= first["best"] + 1e-6).all()


@pytest.mark.parametrize("name", simulators.NAMES)
def test_an_installed_simulator_is_deterministic_and_holds_its_shift(name: str) -> None:
    pytest.importorskip(PACKAGES[name])
    one = simulators.load(name)
    optimizer = one.optimizer(one.radii[0], 0)
    suggestion = optimizer.ask()
    value = one.function(rounded(suggestion.action), rounded(suggestion.context))
    assert math.isfinite(value)
    assert one.function(rounded(suggestion.action), rounded(suggestion.context)) == pytest.approx(value, rel=1e-9)
    assert one.evaluate(suggestion.action, suggestion.context) == pytest.approx(value, rel=1e-9)
    assert 0.0 < one.radii[0] < one.distance(one.shifted) <= one.radii[1]
    assert 2 <= len(one.actions.parameters) <= 25


def test_the_set_of_the_truth_is_that_of_the_optimizer() -> None:
    one = simulators.load("reactor")
    optimizer = one.optimizer(one.radii[1], 0)
    for _ in range(3):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion, one.evaluate(suggestion.action, suggestion.context))
    r = optimizer.recommend()
    placed = one._placed(list(r.contexts))
    assert placed.distance(r.weights, r.reference) == pytest.approx(one.radii[1], rel=1e-6)
    values = np.array([one.evaluate(r.action, c) for c in r.contexts])
    # all contexts that the optimizer's adversary used are among those of the truth
    assert one.truth(r.action, one.radii[1], r.contexts) <= float(r.weights @ values) + CLOSED_FORM * np.ptp(values)


def test_a_reactor_runs_away_without_cooling() -> None:
    reactor = importlib.import_module("simulators.reactor")
    hot, cold = {"feed_temperature": 330.0, "fouling": 0.6}, {"feed_temperature": 300.0, "fouling": 0.0}
    action = {"coolant": 332.0, "flow": 0.9, "feed": 1.2}
    assert reactor.profit(action, hot) == -60.0
    assert reactor.profit(action, cold) > 0.0


def test_the_feeder_has_the_published_losses() -> None:
    pytest.importorskip("pandapower")
    feeder = importlib.import_module("simulators.feeder")
    admittances, loads, power = feeder._network()
    voltages = feeder.flow(1.0, -loads)
    lost = power * (voltages[0] * np.conj(admittances[0] @ voltages) - loads[1:].sum()).real
    assert abs(voltages).min() == pytest.approx(0.9131, abs=1e-4)  # Baran and Wu, 1989
    assert 1000.0 * lost == pytest.approx(202.68, abs=0.01)


def test_an_unknown_simulator_is_named() -> None:
    with pytest.raises(ValueError, match="name must be one of battery"):
        simulators.load("weather")


@pytest.mark.parametrize("problem", ["two optima", "cliff at the edge"])  # samples alone, and a range
def test_another_version_of_the_same_source_has_the_same_run(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "CHECKPOINTS", (3,))
    source = Path(drbo.__file__).parents[1]
    ours = screen.run("default", problem, 0, "robust", (1.0, 0.0))
    theirs = screen.run(screen.OLD, problem, 0, "robust", (1.0, 0.0), source)
    assert {name: column.tolist() for name, column in theirs.items()} == {n: c.tolist() for n, c in ours.items()}
