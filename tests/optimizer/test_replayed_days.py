"""Samples with keys: every context is a row that can be replayed, and no other is asked for."""

import copy
import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo.spaces import Point

DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=7 * i) for i in range(12)]


def frame(n: Any = 12, seed: Any = 0) -> Any:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"outdoor": rng.normal(5.0, 8.0, n), "load": rng.uniform(0.2, 1.0, n)})


FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)
SETS = {
    "mmd": drbo.MMD(),
    "wasserstein": drbo.Wasserstein(scale={"outdoor": 3.0, "load": 0.1}),
    "wasserstein 2": drbo.Wasserstein(order=2.0, scale={"outdoor": 3.0, "load": 0.1}),
    "tv": drbo.TotalVariation(),
    "kl": drbo.KL(),
    "moments": drbo.Moments(outdoor=2.0),
    "both": drbo.Intersection(drbo.Wasserstein(scale={"outdoor": 3.0, "load": 0.1}), drbo.Moments(outdoor=2.0)),
}


def optimizer(contexts: Any = None, ambiguity: Any = None, setting: Any = None) -> Any:
    contexts = drbo.Samples(frame(), keys=DAYS) if contexts is None else contexts
    setting = drbo.Simulator(radius=0.3) if setting is None else setting
    return drbo.Optimizer(np.linspace(0.0, 1.0, 5), contexts, ambiguity=ambiguity, setting=setting, surrogate=FIXED)


def outcome(s: Any) -> Any:
    return -((float(s.action[0]) - 0.02 * s.context["outdoor"]) ** 2) + 0.1 * s.context["load"]


@pytest.mark.parametrize("name", SETS)
def test_only_rows_are_asked_for_whatever_the_set(name: Any) -> None:
    table = frame()
    opt = optimizer(ambiguity=SETS[name])
    for _ in range(6):
        s = opt.ask()
        assert s.key == DAYS[s.context_index]
        assert s.context == {"outdoor": table.outdoor[s.context_index], "load": table.load[s.context_index]}
        opt.tell(s, outcome(s))
    r = opt.recommend()
    assert len(r.contexts) == len(r.weights) == 12
    assert {tuple(c.values()) for c in r.contexts} == set(map(tuple, table.to_numpy().tolist()))
    assert [result.key for result in opt.results] == [
        DAYS[opt.history[2 * i].proposals[0].context.index] for i in range(6)
    ]


def test_results_files_and_tables_have_the_keys(tmp_path: Any) -> None:
    opt = optimizer()
    for _ in range(3):
        s = opt.ask()
        opt.tell(s, outcome(s))
    waiting = opt.ask()
    opt.save(tmp_path / "run.drbo")
    again: Any = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert again.configuration.contexts.keys == tuple(DAYS)
    assert again.pending[0].key == waiting.key
    assert [r.key for r in again.results] == [r.key for r in opt.results]
    assert again.to_frame()["key"].tolist() == [r.key for r in opt.results]
    for other in (again, copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        other.tell(waiting, outcome(waiting))
        s = other.ask()
        assert s.key == DAYS[s.context_index]
    assert all(s.key in DAYS for s in again.ask(3))


def test_the_table_of_results_can_be_appended_by_key() -> None:
    opt = optimizer()
    for _ in range(4):
        s = opt.ask()
        opt.tell(s, outcome(s))
    other = optimizer()
    other.append(opt.to_frame())
    assert [r.key for r in other.results] == [r.key for r in opt.results]
    assert [r.outcome for r in other.results] == [r.outcome for r in opt.results]


@pytest.mark.parametrize(
    "keys",
    [
        [f"day {i}" for i in range(12)],
        list(range(2001, 2013)),
        np.arange(2001, 2013),
        pd.date_range("2020-01-01", periods=12, freq="h"),
        np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]"),
        [("north", year) for year in range(12)],
        pd.Index([f"file_{i}.csv" for i in range(12)]),
    ],
    ids=["text", "integers", "array", "times", "days", "tuples", "index"],
)
def test_kinds_of_keys(keys: Any, tmp_path: Any) -> None:
    opt = optimizer(drbo.Samples(frame(), keys=keys))
    s = opt.ask()
    assert s.key == list(keys)[s.context_index] or s.key == list(keys)[s.context_index].item()
    opt.tell(s, 1.0)
    opt.tell(0.25, 0.5, context=s.key)
    assert opt.results[1].key == opt.results[0].key == s.key
    opt.save(tmp_path / "run.drbo")
    again: Any = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert again.configuration.contexts.keys == opt.configuration.contexts.keys
    assert type(again.results[0].key) is type(opt.results[0].key)


def test_equal_values_under_different_keys_stay_separate() -> None:
    table = pd.DataFrame({"outdoor": [1.0, 1.0, 1.0, 5.0], "load": [0.5, 0.5, 0.5, 0.9]})
    opt = optimizer(drbo.Samples(table, keys=list("abcd")), ambiguity=drbo.TotalVariation())
    opt.tell(0.5, 1.0, context="b")
    opt.tell(0.5, 2.0, context_index=2)
    assert [r.key for r in opt.results] == ["b", "c"]
    with pytest.raises(ValueError, match="values of 3 rows: give the key of one of them, 'a', 'b', 'c'"):
        opt.tell(0.5, 1.0, context={"outdoor": 1.0, "load": 0.5})
    opt.tell(0.5, 1.0, context={"outdoor": 5.0, "load": 0.9})
    assert opt.results[-1].key == "d"
    assert len(opt.recommend().weights) == 4
    assert opt.ask(4)[0].key in "abcd"


def test_a_reference_names_rows_by_their_keys() -> None:
    opt = optimizer(ambiguity=drbo.TotalVariation())
    s = opt.ask(reference={DAYS[0]: 1, DAYS[5]: 3})
    assert s.reference[0] == 0.25
    assert s.reference[5] == 0.75
    assert s.reference.sum() == 1.0
    opt.tell(s, 1.0)
    few = drbo.Samples(frame().iloc[:2], keys=DAYS[:2])
    assert opt.recommend(reference=few).reference[:3].tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(TypeError, match="reference must name the rows by their keys"):
        opt.ask(reference=drbo.Samples(frame()))
    with pytest.raises(ValueError, match="a key of reference must be the key of a row"):
        opt.ask(reference={"1999": 1.0})


def test_nature_may_reveal_the_key() -> None:
    opt = optimizer(ambiguity=drbo.TotalVariation(), setting=drbo.DataDriven(radius=0.2))
    s = opt.ask()
    assert s.key is None
    opt.tell(s, 1.0, context=DAYS[3])
    assert opt.ask().reference[3] == pytest.approx(2.0 / 13.0)


def test_weights_and_the_known_part_of_a_context() -> None:
    table = frame().assign(weekday=["Mon", "Tue"] * 6)
    samples = drbo.Samples(table, np.arange(12), keys=DAYS)
    opt = optimizer(samples, ambiguity=drbo.TotalVariation())
    s = opt.ask(given={"weekday": "Tue"})
    assert s.context["weekday"] == "Tue"
    assert s.context_index % 2 == 1
    even = np.arange(12) * (np.arange(12) % 2)
    assert s.reference == pytest.approx(even[1::2] / even.sum())
    opt.tell(s, 1.0)
    assert opt.ask().reference == pytest.approx(np.arange(12) / 66.0)
    with pytest.raises(ValueError, match="given says weekday = 'Mon', which has no weight"):
        optimizer(drbo.Samples(table, [0, 1] * 6, keys=DAYS)).ask(given={"weekday": "Mon"})


def test_vectors_of_days_pending_days_and_failures() -> None:
    opt = optimizer(ambiguity=drbo.TotalVariation())
    s = opt.ask(n_contexts=3)
    assert len(set(s.keys)) == 3
    assert s.key is None
    assert [DAYS[p.index] for p in s.context_points] == list(s.keys)
    opt.tell(s, {key: float(i) for i, key in enumerate(s.keys)})  # by key
    assert [r.outcome for r in opt.results] == [0.0, 1.0, 2.0]
    first = opt.ask()
    opt.tell(first, failed=True)
    assert opt.results[-1].key == first.key
    assert opt.results[-1].failed
    assert [one.key for one in (opt.ask(), opt.ask())] == [one.key for one in opt.pending]


def test_more_rows_than_atoms_are_represented_by_some_of_them() -> None:
    table = frame(60)
    keys = [f"k{i}" for i in range(60)]
    opt = optimizer(drbo.Samples(table, keys=keys, atoms=20), ambiguity=drbo.MMD())
    for _ in range(6):
        s = opt.ask()
        assert s.key == keys[s.context_index]
        assert s.context == table.iloc[s.context_index].to_dict()
        opt.tell(s, outcome(s))
    r = opt.recommend()
    rows = {tuple(row) for row in table.to_numpy().tolist()}
    assert 20 <= len(r.contexts) < 60
    assert all(tuple(c.values()) in rows for c in r.contexts)
    whole = optimizer(drbo.Samples(table, keys=keys), ambiguity=drbo.MMD())
    whole.append(opt.to_frame())
    assert whole.bound(r.action, radius=0.3).value >= r.value - 1e-6  # the certificate holds for all rows
    assert opt.watch(table)  # new days and old ones
    with pytest.raises(ValueError, match=r"needs every row as an atom: give Samples\(\.\.\., atoms=60\)"):
        optimizer(drbo.Samples(table, keys=keys, atoms=20), ambiguity=drbo.TotalVariation())


def test_without_names_and_with_one_column() -> None:
    opt = optimizer(drbo.Samples(np.array([1.0, 2.0, 4.0]), keys=["a", "b", "c"]))
    s = opt.ask()
    assert s.context.tolist() == [[1.0], [2.0], [4.0]][s.context_index]
    opt.tell(s, 1.0)
    opt.tell(0.5, 1.0, context=[4.0])
    assert opt.results[-1].key == "c"
    assert opt.predict(0.5, [3.0]).mean < np.inf  # a query may be about other conditions


def test_a_column_may_hold_the_keys() -> None:
    samples = drbo.Samples(frame().assign(day=DAYS), keys="day")
    assert samples.names == ("outdoor", "load")
    assert samples.keys == tuple(DAYS)


def test_an_evaluation_gets_the_key() -> None:
    courses = {day: i for i, day in enumerate(DAYS)}
    opt = optimizer()
    drbo.run(opt, lambda *evaluation: float(courses[evaluation[2]]), 4, workers=2, progress=False)
    assert [r.outcome for r in opt.results] == [float(courses[r.key]) for r in opt.results]


def test_the_radius_rules_and_explanations_take_replayed_days() -> None:
    keyed = drbo.Samples(frame(), keys=DAYS)
    rule = drbo.radius.Bootstrap(0.1)
    set_ = drbo.Wasserstein(scale={"outdoor": 3.0, "load": 0.1})
    assert rule.for_samples(keyed, set_) == pytest.approx(
        rule.for_samples(drbo.Samples(frame(), support=0), set_), rel=0.05
    )
    told, other = (drbo.explain_radius(1.0, one, set_) for one in (keyed, drbo.Samples(frame(), support=0)))
    assert [s.amount for s in told.shifts] == pytest.approx([s.amount for s in other.shifts])
    with pytest.raises(TypeError, match="has no answer for"):
        optimizer(keyed, ambiguity=drbo.KL(), setting=drbo.Simulator(radius=rule))
    with pytest.raises(TypeError, match="the samples are the past"):
        optimizer(keyed, setting=drbo.Simulator(radius=rule, history=[0, 1, 2]))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"keys": DAYS[:3]}, ValueError, "keys must hold one key per row, 12, got 3"),
        ({"keys": [DAYS[0], *DAYS[:11]]}, ValueError, "keys must be different from one another, but rows 0 and 1"),
        ({"keys": [1.5] * 12}, TypeError, r"keys\[0\] must be text, an integer, a date or a tuple"),
        ({"keys": [True] * 12}, TypeError, r"keys\[0\] must be text"),
        ({"keys": [None] * 12}, ValueError, r"keys\[0\] must not be missing"),
        ({"keys": 3}, TypeError, "keys must be a sequence"),
        ({"keys": "day"}, ValueError, "keys must name a column of data"),
        ({"keys": DAYS, "support": 3}, ValueError, "support must be 0 with keys"),
        ({"keys": DAYS, "within": drbo.Box(outdoor=(-30.0, 40.0), load=(0.0, 1.0))}, TypeError, "with within"),
    ],
)
def test_bad_keys_are_refused(arguments: Any, error: Any, words: Any) -> None:
    with pytest.raises(error, match=words):
        drbo.Samples(frame(), **arguments)


def test_conditions_that_are_no_row_are_refused() -> None:
    opt = optimizer()
    with pytest.raises(ValueError, match="Give Samples without keys for conditions that are not replayed"):
        opt.tell(0.5, 1.0, context={"outdoor": 0.0, "load": 0.5})
    with pytest.raises(ValueError, match="context must be the key of a row"):
        opt.tell(0.5, 1.0, context="1999")
    with pytest.raises(TypeError, match="Perturbation must have no keys"):
        drbo.Perturbation(drbo.Samples({"x": [0.1, 0.2]}, keys=["a", "b"]))


def test_points_of_a_frame_keep_their_names(tmp_path: Any) -> None:
    actions = pd.DataFrame({"x": [0.0, 0.5, 1.0], "y": [1.0, 2.0, 3.0]})
    contexts = frame(5)
    with pytest.raises(ValueError, match="Wasserstein needs a scale for the columns outdoor, load"):
        drbo.Optimizer(actions, contexts, ambiguity=drbo.Wasserstein(), setting=drbo.Simulator([0.2] * 5, radius=0.1))
    opt = drbo.Optimizer(
        actions,
        contexts,
        ambiguity=drbo.Wasserstein(scale={"outdoor": 3.0, "load": 0.1}),
        setting=drbo.Simulator([0.2] * 5, radius=0.1),
    )
    s = opt.ask()
    assert s.action == actions.iloc[s.action_index].to_dict()
    assert s.context == contexts.iloc[s.context_index].to_dict()
    opt.tell(s, 1.0)
    opt.tell({"x": 0.5, "y": 2.0}, 1.0, context=contexts.iloc[2])
    opt.tell([0.5, 2.0], 1.0, context=contexts.iloc[3].to_numpy())
    assert [r.context["load"] for r in opt.results[1:]] == contexts.load[[2, 3]].tolist()
    assert opt.ask(given={"load": contexts.load[4]}).context == contexts.iloc[4].to_dict()
    opt.save(tmp_path / "run.drbo")
    again: Any = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert again.configuration.contexts.names == ("outdoor", "load")
    assert again.recommend().action == opt.recommend().action
    assert set(again.to_frame()) >= {"x", "y", "outdoor", "load"}
    with pytest.raises(ValueError, match="given must name a column of the contexts, \\['outdoor', 'load'\\], got 0"):
        opt.ask(given={0: 1.0})


def test_a_frame_without_names_of_columns_has_none() -> None:
    assert (
        drbo.Optimizer(pd.DataFrame(np.eye(2)), [0.0, 1.0], setting=drbo.General()).configuration.actions.names is None
    )


def test_ranges_that_differ_need_a_scale() -> None:
    alike = np.array([[0.0, 0.0], [1.0, 3.0], [0.5, 1.0]])
    for points, refused in ((alike, False), (alike * [1.0, 1.1], True), (alike * [1.0, 0.0], False)):
        for contexts in (points, drbo.Samples(points)):
            setting = drbo.Simulator(None if isinstance(contexts, drbo.Samples) else [1, 1, 1], radius=0.1)

            def make(ambiguity: Any, contexts: Any = contexts, setting: Any = setting) -> Any:
                return drbo.Optimizer([0.0, 1.0], contexts, ambiguity=ambiguity, setting=setting)

            if not refused:
                make(drbo.Wasserstein())
                continue
            with pytest.raises(ValueError, match=r"differ by more than a factor of 3, from 1 to 3.3.*scale=\["):
                make(drbo.Wasserstein())
            make(drbo.Wasserstein(scale=[0.4, 1.3]))


def test_a_file_without_the_scale_goes_on_with_a_warning() -> None:
    points = np.array([[0.0, 0.0], [1.0, 30.0]])
    read = drbo.knowledge.from_json(drbo.knowledge.to_json(drbo.Wasserstein()))
    with pytest.warns(UserWarning, match="The loaded run continues without a scale, as before"):
        opt = drbo.Optimizer([0.0, 1.0], points, ambiguity=read, setting=drbo.Simulator([1, 1], radius=0.1))
    placed: Any = opt.configuration.placed
    assert placed.cost[0, 1] == pytest.approx(np.hypot(1.0, 30.0))


def test_the_point_of_a_row_is_its_index() -> None:
    opt = optimizer()
    space = opt.configuration.nature.space
    assert space.key(Point(space.coordinates[3], 3)) == DAYS[3]


def test_a_known_part_is_predicted_in_conditions_that_are_no_row() -> None:
    """The report varies one column of the conditions at a time."""
    x, days = np.linspace(0.0, 1.0, 5), drbo.Samples(frame(), keys=DAYS)
    opt, other = (
        drbo.Optimizer(x, days, setting=drbo.Simulator(radius=0.3), surrogate=FIXED, known=known)
        for known in (lambda action, context: action[0] * context["outdoor"], None)
    )
    elsewhere = {"outdoor": 4.0, "load": 0.5}
    assert opt.predict(0.5, elsewhere).mean == pytest.approx(2.0 + other.predict(0.5, elsewhere).mean)
    assert opt.predict(0.5, DAYS[3]).mean == pytest.approx(0.5 * frame().outdoor[3] + other.predict(0.5, DAYS[3]).mean)
