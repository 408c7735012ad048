"""Labels as contexts and as actions: REVIEW rows U13 (labels are atoms) and U17 (counts and rounded shares)."""

import collections
import copy
import enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import DataDriven, General, Optimizer, Simulator
from drbo.rounds.settings import Setting
from tolerances import ROUNDING

GROUPS = ("young", "middle", "old")
DOSES = np.linspace(0.0, 1.0, 9)
BEST = {"young": 0.2, "middle": 0.5, "old": 0.8}
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.7)), noise=0.05)


class Shift(enum.Enum):
    EARLY = "early"
    LATE = "late"


def effect(dose: Any, group: str) -> float:
    return -float((np.squeeze(dose) - BEST[group]) ** 2)


@pytest.mark.parametrize(
    ("contexts", "weights"),
    [
        ({"young": 2, "middle": 1, "old": 1}, [0.5, 0.25, 0.25]),
        ({"young": 0.5, "middle": 0.25, "old": 0.25}, [0.5, 0.25, 0.25]),
        ({"young": 0.333, "middle": 0.333, "old": 0.333}, [1 / 3] * 3),
        (collections.Counter(["young", "middle", "old", "young"]), [0.5, 0.25, 0.25]),
        (pd.Categorical(["old", "young", "young"], categories=GROUPS), [2 / 3, 0.0, 1 / 3]),
        (pd.Series(["young", "middle", "old", "young"]), [0.5, 0.25, 0.25]),
    ],
)
def test_labels_are_exactly_the_atoms(contexts: Any, weights: list[float]) -> None:
    for setting in (Simulator(radius=0.1, pick="uncertain"), General()):
        opt = Optimizer(DOSES, contexts, setting=setting, surrogate=FIXED)
        s = opt.ask() if isinstance(setting, Simulator) else opt.ask(radius=0.1)
        np.testing.assert_allclose(s.reference, weights, rtol=ROUNDING)
        assert opt.recommend().contexts == GROUPS


def test_labels_without_weights_need_a_reference() -> None:
    with pytest.raises(TypeError, match="Simulator needs a reference"):
        Optimizer(DOSES, GROUPS, setting=Simulator(radius=0.1, pick="uncertain"))
    with pytest.raises(TypeError, match="reference is missing"):
        Optimizer(DOSES, GROUPS, setting=General()).ask(radius=0.1)


def test_a_reference_by_label() -> None:
    by_label, in_order = {"old": 40, "young": 120}, [120, 0, 40]
    asked = []
    for reference in (by_label, in_order, pd.Series(by_label)):
        opt = Optimizer(DOSES, GROUPS, setting=Simulator(reference, radius=0.1, pick="uncertain"), surrogate=FIXED)
        first = opt.ask()
        np.testing.assert_array_equal(first.reference, [0.75, 0.0, 0.25])
        opt.tell(first, 1.0)
        asked.append(opt.ask(reference={"middle": 1}))
        np.testing.assert_array_equal(asked[-1].reference, [0.0, 1.0, 0.0])
        np.testing.assert_array_equal(opt.recommend(reference={"old": 0.5, "young": 0.5}).reference, [0.5, 0.0, 0.5])
    assert asked[0] == asked[1] == asked[2]
    with pytest.raises(ValueError, match="a key of reference must be one of"):
        Optimizer(DOSES, GROUPS, setting=Simulator({"odl": 1}, radius=0.1, pick="uncertain"))
    with pytest.raises(ValueError, match="a key of reference must be one of"):
        opt.ask(reference={"odl": 1})
    with pytest.raises(ValueError, match="reference must sum to 1"):
        Simulator({"old": 0.5}, radius=0.1, pick="uncertain")


def test_a_mapping_that_changes_later_changes_nothing() -> None:
    reference = {"old": 1, "young": 1}
    opt = Optimizer(DOSES, GROUPS, setting=General(), surrogate=FIXED)
    s = opt.ask(reference=reference, radius=0.1)
    reference["old"] = 9
    assert opt.pending == (s,)


def test_counts_are_contexts_seen_in_the_past() -> None:
    rule = drbo.radius.Decaying(1.0)
    opt = Optimizer(DOSES, {"young": 2, "middle": 0, "old": 1}, setting=DataDriven(radius=rule), surrogate=FIXED)
    s = opt.ask()
    np.testing.assert_allclose(s.reference, [2 / 3, 0.0, 1 / 3], rtol=ROUNDING)
    assert s.radius == pytest.approx(1 / np.sqrt(3))
    opt.tell(s, 0.0, context="middle")
    s = opt.ask()
    np.testing.assert_array_equal(s.reference, [0.5, 0.25, 0.25])
    assert s.radius == pytest.approx(0.5)
    np.testing.assert_allclose(Optimizer(DOSES, GROUPS, setting=DataDriven()).ask().reference, 1 / 3)


def test_shares_are_no_data() -> None:
    with pytest.raises(ValueError, match=r"give counts of at most 10,000,000 in all, such as \{'young': 120"):
        Optimizer(DOSES, {"young": 0.2, "old": 0.8}, setting=DataDriven())


def test_a_rule_that_needs_the_order_of_time_refuses_counts() -> None:
    rule = drbo.radius.Calibrated(quantile=0.5, window=1, target="window")
    for setting in (DataDriven(radius=rule), Simulator(radius=rule, pick="uncertain")):
        with pytest.raises(ValueError, match="in time, and counts of labels have none"):
            Optimizer(DOSES, {"young": 3, "old": 2}, setting=setting)
        data = pd.Series(["young", "old", "young", "young"])
        assert Optimizer(DOSES, data, setting=setting, surrogate=FIXED).ask().radius == pytest.approx(
            np.sqrt(2.0), rel=1e-5
        )
    Optimizer(
        DOSES,
        {"young": 3, "old": 2},
        setting=Simulator(radius=rule, history=[0, 1, 0], pick="uncertain"),
        surrogate=FIXED,
    ).ask()


SETTINGS: list[tuple[Setting, dict[str, Any]]] = [
    (General(), {"reference": {"young": 1, "old": 3}, "radius": 0.2}),
    (DataDriven(radius=drbo.radius.Bootstrap()), {}),
    (Simulator({"young": 0.2, "old": 0.8}, radius=0.2, pick="uncertain"), {}),
    (Simulator({"young": 0.2, "old": 0.8}, radius=0.2, pick="informative"), {}),
]


@pytest.mark.parametrize(("setting", "given"), SETTINGS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("surrogate", [FIXED, None], ids=["fixed", "learned"])
def test_a_run_with_labels(setting: Setting, given: dict[str, Any], surrogate: Any, tmp_path: Path) -> None:
    opt = Optimizer(drbo.Box(dose=(0.0, 1.0)) if surrogate else DOSES, GROUPS, setting=setting, surrogate=surrogate)
    for t in range(5):
        s = opt.ask(**given)
        if t == 2:
            opt.tell(s, failed=True)
            continue
        group = GROUPS[t % 3] if s.context is None else s.context
        told = {"context": group} if t % 2 else {"context_index": GROUPS.index(group)}
        dose = s.action["dose"] if surrogate else s.action
        opt.tell(s, effect(dose, group), **({} if s.context else told))
        assert opt.results[-1].context == group
    opt.amend(0, context="old") if isinstance(setting, General | DataDriven) else opt.amend(0, 1.0)
    opt.retract(1)
    opt.ask(**given)
    opt.save(tmp_path / "run")
    loaded = Optimizer.load(tmp_path / "run")
    for other in (loaded, copy.deepcopy(opt)):
        assert other.pending == opt.pending
        assert str(other.recommend()) == str(opt.recommend())
        assert other.recommend().value == opt.recommend().value
        assert other.predict(opt.results[0].action, "old") == opt.predict(opt.results[0].action, "old")
    assert opt.ask(**given) == loaded.ask(**given)
    assert set(opt.to_frame()["context"]) <= set(GROUPS)
    worst = str(opt.recommend()).splitlines()[-3:]
    assert any(group in line for line in worst for group in GROUPS)


@pytest.mark.parametrize(
    ("contexts", "classes"),
    [
        (list(GROUPS), []),
        ({"young": 120, "old": 40}, []),
        ({"young": 0.2, "old": 0.8}, []),
        (drbo.Categorical("a", 2, 2.5, ("b", 1), False), []),
        (drbo.Ordinal("low", "high"), []),
        (pd.Categorical(["b", "a", "b"], categories=["a", "b", "c"], ordered=True), []),
        (pd.Series(["x", "y", "x"]), []),
        (Shift, [Shift]),
    ],
    ids=str,
)
def test_labels_of_all_kinds_are_saved(contexts: Any, classes: list[type], tmp_path: Path) -> None:
    opt = Optimizer(DOSES, contexts, setting=General(), surrogate=FIXED)
    found: Any = opt.configuration.contexts
    last = found.labels[-1]
    opt.tell([0.5], 1.0, context=last)
    opt.ask(reference={last: 1}, radius=0.1)
    opt.save(tmp_path / "run")
    loaded = Optimizer.load(tmp_path / "run", classes=classes)
    again: Any = loaded.configuration.contexts
    assert again.labels == found.labels
    assert again.parameter == found.parameter
    np.testing.assert_array_equal(again.history, found.history)
    assert again.in_order == found.in_order
    assert np.array_equal(again.weights, found.weights) if found.weights is not None else again.weights is None
    assert loaded.results == opt.results
    assert loaded.pending == opt.pending
    assert loaded.recommend().value == opt.recommend().value


def test_members_of_an_enum_need_their_class(tmp_path: Path) -> None:
    Optimizer(DOSES, list(Shift), setting=General()).save(tmp_path / "run")
    with pytest.raises(ValueError, match=r"needs the class .*Shift: pass it"):
        Optimizer.load(tmp_path / "run")


def test_labels_as_actions(tmp_path: Path) -> None:
    worth = {"a": 0.0, "b": 1.0, ("c", 1): 0.5}
    opt = Optimizer(list(worth), GROUPS, setting=Simulator({"old": 1, "young": 1}, radius=0.1, pick="uncertain"))
    for _ in range(8):
        s = opt.ask()
        opt.tell(s, worth[s.action])
    opt.tell("a", failed=True, context="old")
    opt.tell(("c", 1), 0.5, context="old")
    opt.save(tmp_path / "run")
    r = Optimizer.load(tmp_path / "run").recommend()
    assert r.action == "b"
    assert str(r).startswith("deploy b\n")
    assert opt.recommend().value == r.value
    with pytest.raises(TypeError, match="actions must be points, or labels without weights"):
        Optimizer({"a": 1, "b": 2}, GROUPS, setting=General())
    with pytest.raises(ValueError, match="action must be one of 'a', 'b'"):
        opt.predict("d", "old")


REFERENCE = {"young": 0.5, "middle": 0.2, "old": 0.3}
APART = 1.0 - np.eye(3)
SIMILAR = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, 0.5], [0.1, 0.5, 1.0]])


class Kinship(drbo.Kernel):
    """A kernel of the user's on labels: the position of a label is where its coordinate is."""

    variance = 1.0

    def arguments(self) -> dict[str, Any]:
        return {}

    def __call__(self, a: Any, b: Any) -> Any:
        return SIMILAR[np.ix_(a.argmax(axis=1), b.argmax(axis=1))]

    def gradient(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    @property
    def curvature(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("ambiguity", "oracle"),
    [
        (None, drbo.MMD(gram=np.exp(-(APART**2) / (2 * 0.2**2)))),
        (drbo.MMD(kernel=drbo.RBF(0.8)), drbo.MMD(gram=np.exp(-(APART**2) / (2 * 0.8**2)))),
        (drbo.MMD(kernel=Kinship()), drbo.MMD(gram=SIMILAR)),
        (drbo.MMD(gram=SIMILAR), drbo.MMD(gram=SIMILAR)),
        (drbo.Wasserstein(), drbo.Wasserstein(cost=APART)),
        (drbo.Wasserstein(), drbo.TotalVariation()),  # moving anything by 1 is what the total variation counts
        (drbo.Wasserstein(cost=2.0 - 2.0 * SIMILAR), drbo.Wasserstein(cost=2.0 - 2.0 * SIMILAR)),
        (drbo.TotalVariation(), drbo.TotalVariation()),
        (drbo.KL(), drbo.KL()),
        (drbo.ChiSquare(), drbo.ChiSquare()),
        (drbo.CVaR(), drbo.CVaR()),
        (drbo.Expectation(), drbo.Expectation()),
        (drbo.Neighbourhood(), drbo.Neighbourhood(np.eye(3) / np.sqrt(2.0))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_set_on_labels(ambiguity: Any, oracle: Any, tmp_path: Path) -> None:
    radius = 0.45
    opt = Optimizer(
        DOSES, REFERENCE, ambiguity=ambiguity, setting=Simulator(radius=radius, pick="uncertain"), surrogate=FIXED
    )
    for _ in range(6):
        s = opt.ask()
        opt.tell(s, effect(s.action, s.context))
    r = opt.recommend()
    lower = np.array([[opt.predict(dose, group).lower for group in GROUPS] for dose in DOSES[:, None]])
    worst = oracle.worst_case(lower, list(REFERENCE.values()), radius)
    assert r.value == pytest.approx(worst.expectation.max(), abs=1e-8 * np.ptp(lower))
    assert r.action_index == int(np.argmax(worst.expectation))
    np.testing.assert_allclose(
        opt.configuration.placed.distance([1, 0, 0], [0, 0, 1]), oracle.distance([1, 0, 0], [0, 0, 1])
    )
    opt.save(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run", classes=[Kinship]).recommend().value == r.value


def test_a_neighbourhood_of_labels_holds_the_likeliest() -> None:
    near = drbo.Neighbourhood(np.eye(3) / np.sqrt(2.0))
    apart = [near.distance(np.eye(3)[j], list(REFERENCE.values())) for j in range(3)]
    assert np.argsort(apart).tolist() == [0, 2, 1]  # young 0.5, old 0.3, middle 0.2


def test_labels_of_a_table_of_a_box_and_of_a_mapping_agree() -> None:
    table = {"age": [group for group, share in REFERENCE.items() for _ in range(round(10 * share))]}
    forms: list[Any] = [
        REFERENCE,
        {"young": 5, "middle": 2, "old": 3},
        pd.Series(table["age"]),
        drbo.Samples(table),
        drbo.Samples(pd.DataFrame(table), within=drbo.Box(age=drbo.Categorical(*GROUPS))),
        drbo.Samples({"age": GROUPS}, list(REFERENCE.values()), within=drbo.Box(age=drbo.Categorical(*GROUPS))),
    ]
    values = []
    for contexts in forms:
        named = isinstance(contexts, drbo.Samples)
        opt = Optimizer(DOSES, contexts, setting=Simulator(radius=0.2, pick="uncertain"), surrogate=FIXED)
        for dose, group in ((0.0, "old"), (0.5, "young"), (1.0, "middle"), (0.75, "old")):
            opt.tell([dose], effect(dose, group), context={"age": group} if named else group)
        r = opt.recommend()
        assert len(r.weights) == 3
        values.append(r.value)
        assert r.gap <= 1e-8
    np.testing.assert_allclose(values, values[0], rtol=1e-9)


def test_a_matrix_needs_labels_in_an_order_that_is_known() -> None:
    with pytest.raises(TypeError, match=r"or are labels of a table.*or labels with their counts as contexts"):
        Optimizer(
            DOSES,
            drbo.Samples({"age": GROUPS}),
            ambiguity=drbo.MMD(gram=SIMILAR),
            setting=Simulator(radius=0.1, pick="uncertain"),
        )


def test_an_order_among_labels_is_measured_in_steps(tmp_path: Path) -> None:
    sizes = drbo.Ordinal("S", "M", "L", "XL")
    weights = {"S": 1.0}
    opt = Optimizer(
        DOSES,
        sizes,
        ambiguity=drbo.Wasserstein(),
        setting=Simulator(weights, radius=1.0, pick="uncertain"),
        surrogate=FIXED,
    )
    apart = [opt.configuration.placed.distance(np.eye(4)[0], np.eye(4)[j]) for j in range(4)]
    np.testing.assert_allclose(apart, [0.0, 1.0, 2.0, 3.0])
    in_a_box = Optimizer(
        DOSES, drbo.Samples({"size": ["S"]}, within=drbo.Box(size=sizes)), ambiguity=drbo.Wasserstein(),
        setting=Simulator(radius=1.0, pick="uncertain"), surrogate=FIXED,
    )  # fmt: skip
    ordered = pd.Series(pd.Categorical(["S"], categories=sizes.choices, ordered=True))
    in_a_table = Optimizer(
        DOSES, drbo.Samples(pd.DataFrame({"size": ordered})), ambiguity=drbo.Wasserstein(),
        setting=Simulator(radius=1.0, pick="uncertain"), surrogate=FIXED,
    )  # fmt: skip
    for number, one in enumerate((opt, in_a_box, in_a_table)):
        for i, size in enumerate(sizes.choices):
            one.tell([0.5], float(-i), context=size if one is opt else {"size": size})
        r = one.recommend()
        names = [c if one is opt else c["size"] for c in r.contexts]
        worst = dict(zip(names, r.weights, strict=True))
        assert sum(sizes.choices.index(size) * w for size, w in worst.items()) == pytest.approx(1.0)  # one step away
        assert r.value == pytest.approx(opt.recommend().value, rel=1e-8)
        one.save(tmp_path / f"{number}")
        assert Optimizer.load(tmp_path / f"{number}").recommend().value == r.value


def test_predictions_for_many_labels() -> None:
    opt = Optimizer(DOSES, GROUPS, setting=Simulator(REFERENCE, radius=0.1, pick="uncertain"), surrogate=FIXED)
    opt.tell([0.5], 1.0, context="old")
    one = [opt.predict([0.5], group).mean for group in GROUPS]
    for many in (list(GROUPS), np.array(GROUPS), pd.Series(GROUPS), pd.Categorical(GROUPS)):
        np.testing.assert_allclose(opt.predict([0.5], many).mean, one, rtol=ROUNDING)
