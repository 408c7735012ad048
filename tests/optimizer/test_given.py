"""What is known of the context before the choice: the set of a round is the conditional one, from ask to file."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import GP, RBF, Box, Categorical, DataDriven, General, Integer, Optimizer, Product, Samples, Simulator
from drbo.ambiguity.family import among
from drbo.radius import Bootstrap, Constant, Theoretical
from exact import exact

DAYS = ("Mon", "Tue", "Sat")
NATURE = Box(weekday=Categorical(*DAYS), demand=(0.0, 200.0))
RNG = np.random.default_rng(0)
SALES = pd.DataFrame({"weekday": [DAYS[i % 3] for i in range(21)], "demand": 60.0 + 5.0 * RNG.normal(size=21)})
SALES.loc[SALES.weekday == "Sat", "demand"] += 80.0
LABELLED = GP(Product(RBF(0.7), RBF(0.7)), 0.05)
FIXED = GP(Product(RBF(0.5), RBF(1.0)), 0.05)
SETTINGS: list[drbo.Setting] = [General(), DataDriven(radius=0.2), Simulator(radius=0.2, pick="uncertain")]


def profit(order: float, demand: float) -> float:
    return 2.0 * min(order, demand) - order


def make(setting: drbo.Setting, **more: Any) -> Optimizer:
    arguments = {"surrogate": FIXED, "ambiguity": drbo.MMD(), **more}
    contexts = arguments.pop("contexts", Samples(SALES, within=NATURE, support=8))
    return Optimizer(Box(order=(0.0, 200.0)), contexts, setting=setting, **arguments)


def ask(opt: Optimizer, day: str | None) -> drbo.knowledge.Suggestion:
    radius = 0.2 if isinstance(opt.configuration.setting, General) else None
    return opt.ask(given=None if day is None else {"weekday": day}, radius=radius)


def tell(opt: Optimizer, s: drbo.knowledge.Suggestion, demand: float) -> None:
    if s.context is None:
        opt.tell(s, profit(s.action["order"], demand), context={"demand": demand})
    else:
        opt.tell(s, profit(s.action["order"], s.context["demand"]))


def run(opt: Optimizer, days: list[str]) -> None:
    for i, day in enumerate(days):
        tell(opt, ask(opt, day), 50.0 + 7.0 * i)


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_the_reference_is_the_conditional_distribution(setting: drbo.Setting) -> None:
    opt = make(setting)
    s = ask(opt, "Sat")
    saturdays = SALES[SALES.weekday == "Sat"]
    r = opt.recommend()
    used = [c for c, w in zip(r.contexts, r.reference, strict=True) if w > 0.0]
    assert sorted(c["demand"] for c in used) == pytest.approx(sorted(saturdays.demand), rel=1e-12)
    assert s.reference.sum() == pytest.approx(1.0)
    assert {c["weekday"] for c in r.contexts} == {"Sat"}, "nature cannot choose another weekday"
    assert s.given == r.given == {"weekday": "Sat"}
    assert "where weekday = 'Sat'" in str(r)
    assert s.context is None or s.context["weekday"] == "Sat"


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_it_is_the_round_of_an_optimizer_that_knows_nothing_else(setting: drbo.Setting) -> None:
    """The oracle: samples of the Saturdays alone, on the same coordinates, with every label but one impossible."""
    opt = make(setting, ambiguity=drbo.TotalVariation())
    alone = make(
        setting,
        ambiguity=drbo.TotalVariation(),
        contexts=Samples(SALES[SALES.weekday == "Sat"], within=NATURE, support=0),
    )
    for each in (opt, alone):
        for order in (20.0, 90.0, 150.0):
            for row in SALES.to_dict("records")[::2]:
                each.tell({"order": order}, profit(order, row["demand"]), context=row, drawn=False)
    radius = 0.2 if isinstance(setting, General) else None
    conditional, whole = opt.recommend(given={"weekday": "Sat"}, radius=radius), alone.recommend(radius=radius)
    # The range of `alone` holds every weekday, so its worst case is at most as good.
    assert conditional.value >= whole.value - 1e-9
    grid = np.linspace(0.0, 200.0, 2001)
    of_day = [{"weekday": "Sat", "demand": demand} for demand in grid]
    posterior = opt.posterior
    at = np.array([opt._configuration.nature.encode("context", c).coordinates for c in of_day])
    x = np.repeat(conditional.action_point.coordinates[None, :], len(at), axis=0)
    mean, variance = posterior.predict(x, at)
    lower = mean - 2.0 * np.sqrt(variance)
    rows = np.array([opt._configuration.nature.encode("context", c).coordinates for c in SALES.to_dict("records")])
    saturday = rows[SALES.weekday == "Sat"]
    m, v = posterior.predict(np.repeat(x[:1], len(saturday), axis=0), saturday)
    values = np.sort(m - 2.0 * np.sqrt(v))
    # TV of 0.2: a fifth of the mass goes from the best Saturdays to the worst context of the range.
    keep = np.full(len(values), 1.0 / len(values))
    moved = 0.2
    for i in reversed(range(len(values))):
        take = min(keep[i], moved)
        keep[i] -= take
        moved -= take
    expected = keep @ values + 0.2 * lower.min()
    scale = np.ptp(lower)
    assert conditional.value + conditional.gap <= expected + 1e-3 * scale
    assert conditional.value <= expected + 1e-9 * scale
    assert conditional.value >= expected - 0.05 * scale


def test_contexts_seen_since_count_where_they_agree() -> None:
    opt = make(DataDriven(radius=0.1))
    run(opt, ["Mon", "Tue", "Mon"])
    assert np.count_nonzero(ask(opt, "Mon").reference) == 7 + 2
    assert np.count_nonzero(ask(opt, "Tue").reference) == 7 + 1
    assert np.count_nonzero(ask(opt, "Sat").reference) == 7
    assert np.count_nonzero(ask(opt, None).reference) == 21 + 3


def test_the_radius_rule_sees_the_matching_contexts_alone() -> None:
    opt = make(DataDriven(delta=0.1, radius=Theoretical(0.1)))
    assert ask(opt, "Mon").radius == pytest.approx(
        Theoretical(0.1).radius(np.zeros(7, dtype=int), opt.configuration.placed, 1)
    )
    assert ask(opt, None).radius == pytest.approx(
        Theoretical(0.1).radius(np.zeros(21, dtype=int), opt.configuration.placed, 1)
    )
    grid = [[day, demand] for day in (0.0, 1.0) for demand in (1.0, 2.0, 3.0)]
    opt = Optimizer(
        [0.0, 1.0], grid, setting=DataDriven(radius=Bootstrap()), ambiguity=drbo.TotalVariation(), surrogate=FIXED
    )
    seen = [0, 1, 4, 5, 3, 3, 1, 2]
    for j in seen:
        opt.tell([0.0], 0.0, context_index=j)
    own = np.array([j - 3 for j in seen if j >= 3])
    assert opt.ask(given={0: 1.0}).radius == Bootstrap().radius(own, drbo.TotalVariation(), 3)


def test_nothing_seen_of_what_is_known_is_like_nothing_seen() -> None:
    opt = make(DataDriven(radius=Theoretical(0.1)), contexts=NATURE)
    s = ask(opt, "Mon")
    assert s.radius == np.inf
    opt.tell(s, 1.0, context={"demand": 70.0})
    assert np.isfinite(ask(opt, "Mon").radius)
    assert ask(opt, "Tue").radius == np.inf, "no Tuesday yet"
    assert {c["weekday"] for c in opt.recommend().contexts} == {"Tue"}
    only = SALES[SALES.weekday != "Sat"]
    for setting in (General(), Simulator(radius=0.1, pick="uncertain")):
        other = make(setting, contexts=Samples(only, within=NATURE))
        with pytest.raises(ValueError, match=r"weekday = 'Sat', which no sample has; the samples have .*'Mon', 'Tue'"):
            ask(other, "Sat")


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_what_is_told_must_agree_and_may_be_the_rest_alone(setting: drbo.Setting) -> None:
    opt = make(setting)
    s = ask(opt, "Mon")
    if s.context is None:
        with pytest.raises(ValueError, match=r"context contradicts what was given with ask, weekday = 'Mon'"):
            opt.tell(s, 1.0, context={"weekday": "Tue", "demand": 50.0})
        assert opt.n_told == 0
        for told in ({"demand": 50.0}, {"weekday": "Mon", "demand": 50.0}, 50.0, ["Mon", 50.0]):
            opt.tell(ask(opt, "Mon"), 1.0, context=told)
            assert opt.results[-1].context == {"weekday": "Mon", "demand": 50.0}
    opt.tell(s, failed=True)
    assert opt.results[-1].context["weekday"] == "Mon"


def test_several_contexts_of_one_evaluation_agree_too() -> None:
    opt = make(DataDriven(radius=0.1))
    rest = pd.DataFrame({"demand": [50.0, 60.0]})
    for rows in (rest, rest.assign(weekday="Mon"), [{"demand": 50.0}, {"weekday": "Mon", "demand": 60.0}]):
        opt.tell(ask(opt, "Mon"), [1.0, 2.0], contexts=rows)
        assert [r.context for r in opt.results[-2:]] == [{"weekday": "Mon", "demand": d} for d in (50.0, 60.0)]
    opt.tell(ask(opt, "Mon"), {50.0: 1.0, 60.0: 2.0})
    assert opt.results[-1].context == {"weekday": "Mon", "demand": 60.0}
    with pytest.raises(ValueError, match=r"contexts\[1\] contradicts what was given"):
        opt.tell(ask(opt, "Mon"), [1.0, 2.0], contexts=rest.assign(weekday=["Mon", "Sat"]))
    simulator = make(Simulator(radius=0.1, pick="uncertain"))
    s = simulator.ask(given={"weekday": "Sat"}, n_contexts=3)
    assert [c["weekday"] for c in s.contexts] == ["Sat"] * 3
    simulator.tell(s, [1.0, 2.0, 3.0])


def test_a_context_that_is_known_as_a_whole_need_not_be_told() -> None:
    opt = make(General(), contexts=Samples(SALES[["weekday"]], within=Box(weekday=Categorical(*DAYS)), support=0))
    s = ask(opt, "Tue")
    opt.tell(s, 1.0)
    assert opt.results[0].context == {"weekday": "Tue"}
    assert opt.recommend().value <= opt.predict(s.action, {"weekday": "Tue"}).mean


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"weekday": "Sun"}, ValueError, r"given\['weekday'\] must be one of 'Mon', 'Tue', 'Sat', got 'Sun'"),
        ({"demand": 60.0}, TypeError, r"given\['demand'\] is a continuous number.*ask\(reference=drbo.Samples"),
        ({"day": "Mon"}, ValueError, r"given has unknown 'day'; the columns are weekday, demand"),
        ("Mon", TypeError, "given must map columns of the context to values, got 'Mon'"),
    ],
)
def test_what_cannot_be_known_is_refused(given: Any, error: type[Exception], text: str) -> None:
    opt = make(DataDriven(radius=0.1))
    for call in (opt.ask, opt.recommend):
        with pytest.raises(error, match=text):
            call(given=given)
    assert opt.history == ()
    numbers = make(DataDriven(radius=0.1), contexts=Samples(SALES[["demand"]]))
    with pytest.raises(TypeError, match=r"given\['demand'\] is a continuous number"):
        numbers.ask(given={"demand": 60.0})
    with pytest.raises(ValueError, match="given has unknown 'day'; the columns are demand"):
        numbers.ask(given={"day": "Mon"})


def test_whole_numbers_are_known_by_equality() -> None:
    nature = Box(hour=Integer(0, 23), load=(0.0, 1.0))
    data = {"hour": [7, 7, 8, 9, 7], "load": [0.1, 0.2, 0.3, 0.4, 0.5]}
    opt = make(DataDriven(radius=0.1), contexts=Samples(data, within=nature, support=8))
    s = opt.ask(given={"hour": 7})
    assert np.count_nonzero(s.reference) == 3
    assert s.given == {"hour": 7}
    assert {c["hour"] for c in opt.recommend().contexts} == {7}


def test_a_reference_for_one_round_is_narrowed_too() -> None:
    forecast = Samples({"weekday": ["Mon", "Sat", "Sat"], "demand": [10.0, 20.0, 30.0]}, [0.5, 0.2, 0.3], within=NATURE)
    for setting in (General(), Simulator(radius=0.1, pick="uncertain")):
        opt = make(setting)
        s = opt.ask(reference=forecast, radius=0.1, given={"weekday": "Sat"})
        assert s.reference[s.reference > 0.0] == pytest.approx([0.4, 0.6])
        with pytest.raises(ValueError, match="weekday = 'Tue', which no sample has"):
            opt.recommend(reference=forecast, given={"weekday": "Tue"})
        assert np.count_nonzero(opt.recommend(given={}).reference) == 3, "{}: nothing is known"


@pytest.mark.parametrize(
    "ambiguity",
    [
        drbo.MMD(), drbo.MMD(gram=np.eye(6) + 0.5), drbo.MMD([[i, j] for i in (0, 1) for j in (0, 1, 2)]),
        drbo.TotalVariation(), drbo.KL(), drbo.ChiSquare(), drbo.CVaR(), drbo.Expectation(), drbo.Wasserstein(),
        drbo.Wasserstein(cost=1.0 - np.eye(6)), drbo.Neighbourhood(),
    ],
    ids=repr,
)  # fmt: skip
def test_every_set_on_a_finite_grid(ambiguity: drbo.AmbiguitySet) -> None:
    """The oracle: an optimizer whose contexts are the matching half, with the set on that half."""
    grid = np.array([[i, j] for i in (0.0, 1.0) for j in (0.0, 1.0, 2.0)])
    weights, half = np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1]), np.array([3, 4, 5])
    rng = np.random.default_rng(1)
    outcomes = rng.normal(size=(4, 6))
    opt = Optimizer(np.arange(4.0), grid, ambiguity=ambiguity, setting=General(), surrogate=FIXED)
    for x, c in np.ndindex(4, 6):
        opt.tell([float(x)], float(outcomes[x, c]), context_index=c)
    r = opt.recommend(weights, 0.15, given={0: 1})
    mean, variance = exact(opt.posterior).on_grid()
    lower = (mean - 2.0 * np.sqrt(variance))[:, half]
    placed = among(ambiguity, half).on(grid[half], opt._configuration.nature.space.scales)
    worst = placed.worst_case(lower, weights[half] / weights[half].sum(), 0.15)
    assert r.value == pytest.approx(worst.expectation.max(), abs=1e-7 * np.ptp(lower))
    assert r.action_index == int(np.argmax(worst.expectation))
    assert np.array_equal(r.contexts, grid[half])
    assert len(r.weights) == 3


def test_indices_and_points_of_a_finite_grid() -> None:
    grid = np.array([[i, j] for i in (0.0, 1.0) for j in (0.0, 1.0, 2.0)])
    opt = Optimizer([0.0, 1.0], grid, setting=Simulator(np.ones(6), 0.1, pick="uncertain"), surrogate=FIXED)
    s = opt.ask(given={0: 1.0})
    assert s.context_index in (3, 4, 5)
    assert s.context[0] == 1.0
    opt.tell(s, 1.0)
    opt = Optimizer([0.0, 1.0], grid, setting=DataDriven(radius=0.1), surrogate=FIXED)
    with pytest.raises(ValueError, match="contradicts what was given"):
        opt.tell(opt.ask(given={0: 1.0}), 1.0, context_index=0)
    opt.tell(opt.pending[0], 1.0, context=[2.0])
    assert opt.results[0].context.tolist() == [1.0, 2.0]
    opt.tell(opt.ask(given={0: 1.0, 1: 0.0}), 1.0)
    assert opt.results[1].context.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"given\[1\] must be a value of that column, such as 0, 1, 2; got 7"):
        opt.ask(given={1: 7})
    with pytest.raises(ValueError, match=r"by its position, \[0, 1\], got 'weekday'"):
        opt.ask(given={"weekday": 1})
    empty = Optimizer([0.0, 1.0], grid, setting=General(), surrogate=FIXED)
    with pytest.raises(ValueError, match=r"0 = 1\.0, which has no weight in the reference"):
        empty.ask(reference=[1, 1, 1, 0, 0, 0], radius=0.1, given={0: 1})


def test_labels_and_tuples_of_labels() -> None:
    cells = [(day, level) for day in ("Mon", "Sat") for level in ("low", "high")]
    counts = dict(zip(cells, (3, 1, 2, 4), strict=True))
    opt = Optimizer(["a", "b"], counts, setting=DataDriven(radius=Theoretical()), surrogate=LABELLED)
    s = opt.ask(given={0: "Sat"})
    assert s.reference == pytest.approx([2 / 6, 4 / 6])
    assert s.radius == Theoretical().radius(np.zeros(6, dtype=int), drbo.TotalVariation(), 2)
    opt.tell(s, 1.0, context="low")
    assert opt.results[0].context == ("Sat", "low")
    with pytest.raises(ValueError, match=r"given\[1\] must be one of 'low', 'high', got 'middle'"):
        opt.ask(given={1: "middle"})
    with pytest.raises(ValueError, match="contradicts what was given"):
        opt.tell(opt.ask(given={0: "Sat"}), 1.0, context=("Mon", "low"))
    assert list(opt.recommend().contexts) == cells[2:]
    plain = Optimizer(
        ["a", "b"], {"young": 1, "old": 3}, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=LABELLED
    )
    s = plain.ask(given={0: "old"})
    assert (s.context, s.reference.tolist()) == ("old", [1.0])
    with pytest.raises(ValueError, match="needs their order in time, and counts of labels have none"):
        Optimizer(["a", "b"], counts, setting=DataDriven(radius=0.1, window=3))


def test_an_order_among_labels_is_known_by_equality() -> None:
    data = {"size": ["s", "l", "l"], "load": [1.0, 2.0, 3.0]}
    nature = Box(size=drbo.Ordinal("s", "m", "l"), load=(0.0, 5.0))
    opt = make(DataDriven(radius=0.1), contexts=Samples(data, within=nature, support=8))
    assert np.count_nonzero(opt.ask(given={"size": "l"}).reference) == 2
    assert {c["size"] for c in opt.recommend().contexts} == {"l"}


def test_an_action_of_ones_own_is_certified_for_what_is_known() -> None:
    opt = make(DataDriven(radius=0.1))
    run(opt, ["Mon", "Sat"])
    best = opt.recommend(given={"weekday": "Sat"})
    own = opt.bound(best.action, given={"weekday": "Sat"})
    assert own.given == {"weekday": "Sat"}
    assert own.value == pytest.approx(best.value, abs=1e-6)


def test_a_simulator_with_a_history_of_a_finite_grid() -> None:
    grid = np.array([[i, j] for i in (0.0, 1.0) for j in (0.0, 1.0)])
    opt = Optimizer(
        [0.0, 1.0],
        grid,
        setting=Simulator(history=[0, 2, 3, 3, 1], radius=Theoretical(), pick="uncertain"),
        surrogate=FIXED,
    )
    s = opt.ask(given={0: 1.0})
    assert s.reference == pytest.approx([1 / 3, 2 / 3])
    assert s.radius == Theoretical().radius(np.zeros(3, dtype=int), opt.configuration.placed, 2)
    assert opt.ask(reference=np.ones(4), given={0: 1.0}).radius == s.radius


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_live_dropped_loaded_and_copied_ones_agree(setting: drbo.Setting, tmp_path: Path) -> None:
    opt = make(setting)
    run(opt, ["Mon", "Sat", "Mon"])
    opt.cancel(ask(opt, "Tue"))
    ask(opt, "Sat")  # stays pending, with the set of its own round
    opt.save(tmp_path / "a.json")
    others = [Optimizer.load(tmp_path / "a.json"), copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))]
    expected = ask(opt, "Mon"), opt.recommend(), opt.recommend_iterate(), opt.recommend(given={"weekday": "Tue"})
    for other in others:
        assert ask(other, "Mon") == expected[0]
    opt._start_anew()
    for other in [*others, opt]:
        assert [p.given for p in other.pending] == [{"weekday": "Sat"}, {"weekday": "Mon"}]
        found = other.recommend(), other.recommend_iterate(), other.recommend(given={"weekday": "Tue"})
        for one, two in zip(found, expected[1:], strict=True):
            assert (one.value, one.given, one.radius) == (two.value, two.given, two.radius)
            assert np.array_equal(one.weights, two.weights)
    tell(opt, opt.pending[0], 150.0)
    opt.save(tmp_path / "a.json")
    assert Optimizer.load(tmp_path / "a.json").recommend().value == opt.recommend().value


def test_an_iterate_is_certified_for_what_it_knew() -> None:
    opt = make(DataDriven(radius=0.1))
    run(opt, ["Mon", "Sat", "Sat", "Mon"])
    r = opt.recommend_iterate()
    leading = opt._known.state.incumbent
    assert leading is not None
    assert r.given == leading.given
    assert {c["weekday"] for c in r.contexts} == {r.given["weekday"]} if r.given else True


def test_a_damaged_known_part_is_refused(tmp_path: Path) -> None:
    opt = make(DataDriven(radius=Constant(0.1)))
    ask(opt, "Mon")
    opt._facts[0] = drbo.knowledge.history.Asked(**{**vars(opt._facts[0]), "given": {"weekday": "Sun"}})
    opt.save(tmp_path / "a.json")
    with pytest.raises(ValueError, match=r"is damaged: .*must be one of 'Mon'"):
        Optimizer.load(tmp_path / "a.json")


def test_retract_and_amend_change_what_was_seen() -> None:
    opt = make(DataDriven(radius=0.1))
    run(opt, ["Mon", "Mon"])
    opt.retract(0)
    assert np.count_nonzero(ask(opt, "Mon").reference) == 8
    opt.amend(1, context={"weekday": "Tue", "demand": 50.0})
    assert np.count_nonzero(ask(opt, "Mon").reference) == 7
    assert np.count_nonzero(ask(opt, "Tue").reference) == 8


def test_a_grid_search_forgets_the_set_of_another_condition() -> None:
    """Two halves with equal weights and radii, but other distances: what is feasible in one is not in the other."""
    far, near = [[0.0, 0.0], [0.0, 10.0]], [[1.0, 0.0], [1.0, 0.1]]
    setting, family = General(), drbo.Wasserstein(scale=[1.0, 1.0])
    opt = Optimizer(np.arange(5.0), np.array(far + near), ambiguity=family, setting=setting, surrogate=FIXED)
    rng = np.random.default_rng(3)
    for x, c in np.ndindex(5, 4):
        opt.tell([float(x)], float(rng.normal()), context_index=c)
    fresh = copy.deepcopy(opt)
    opt.recommend(np.ones(4), 0.05, given={0: 1.0})
    one, two = (o.recommend(np.ones(4), 0.05, given={0: 0.0}) for o in (opt, fresh))
    assert (one.action_index, one.value) == (two.action_index, two.value)
