"""Labels as a finite set: what may be given, what weights it has, and how far apart labels are."""

import collections
import datetime
import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo.spaces import FiniteSet, Labels
from drbo.spaces.finite import LARGEST_PAST, finite_set
from tolerances import ROUNDING

GROUPS = ("young", "middle", "old")


class Shift(enum.IntEnum):
    EARLY = 1
    LATE = 2


@dataclass(frozen=True)
class Ward:
    name: str


def labels(given: Any) -> Labels:
    found = finite_set("contexts", given)
    assert isinstance(found, Labels)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["young", "middle", "old"], GROUPS),
        (np.array(GROUPS), GROUPS),
        (pd.Index(GROUPS), GROUPS),
        (drbo.Categorical(*GROUPS), GROUPS),
        (drbo.Ordinal(*GROUPS), GROUPS),
        ({"young": 0.2, "old": 0.8}, ("young", "old")),
        (["a", 1, 2.5, ("b", 3)], ("a", 1, 2.5, ("b", 3))),
        ([("Mon", "am"), ("Mon", "pm")], (("Mon", "am"), ("Mon", "pm"))),
        ([True, False], (True, False)),
        ([("a", "b")], (("a", "b"),)),
        (Shift, (Shift.EARLY, Shift.LATE)),
        ([Ward("a"), Ward("b")], (Ward("a"), Ward("b"))),
        (iter(["a", "b"]), ("a", "b")),
    ],
)
def test_what_labels_may_be(given: Any, expected: tuple[Any, ...]) -> None:
    found = labels(given)
    assert found.labels == expected
    assert [type(label) for label in found.labels] == [type(label) for label in expected]
    for i, label in enumerate(expected):
        point = found.encode("context", label)
        assert point.index == i
        assert point.same_as(found.at("context_index", i))
        assert found.decode(point) == label


@pytest.mark.parametrize(
    "given", [[0.1, 0.5], range(3), [(0, 1), (1, 2)], np.eye(2), pd.Series([1.0, 2.0]), pd.DataFrame({"a": [1.0, 2.0]})]
)
def test_numbers_and_points_stay_points(given: Any) -> None:
    found = finite_set("contexts", given)
    assert type(found) is FiniteSet
    np.testing.assert_array_equal(found.points, np.asarray(given, dtype=float).reshape(len(given), -1))


def test_plain_labels_are_one_apart_or_equal() -> None:
    found = labels(GROUPS)
    np.testing.assert_array_equal(found.coordinates, np.eye(3))
    apart = np.linalg.norm(found.points[:, None] - found.points, axis=2)
    np.testing.assert_allclose(apart, 1.0 - np.eye(3), rtol=ROUNDING)
    np.testing.assert_array_equal(found.measured(found.coordinates), found.points)
    assert found.in_unit_cube() is found
    assert np.sqrt(3.0) * found.scales == pytest.approx(np.ones(3))  # one column, not three


def test_labels_in_an_order_are_apart_by_steps() -> None:
    found = labels(drbo.Ordinal(*GROUPS))
    np.testing.assert_array_equal(found.coordinates, [[0.0], [0.5], [1.0]])
    np.testing.assert_array_equal(found.points, [[0.0], [1.0], [2.0]])
    np.testing.assert_array_equal(found.scales, [2.0])
    np.testing.assert_array_equal(found.widths(np.array([[0.25]])), [[0.5]])
    assert labels(drbo.Ordinal("alone")).points == [[0.0]]


def test_a_mapping_gives_weights_or_counts() -> None:
    counts = labels({"young": 120, "old": 40})
    np.testing.assert_array_equal(counts.weights, [0.75, 0.25])
    np.testing.assert_array_equal(np.bincount(counts.history), [120, 40])
    assert not counts.in_order
    shares = labels({"young": 0.2, "old": 0.8})
    np.testing.assert_array_equal(shares.weights, [0.2, 0.8])
    assert not shares.history.size
    people = labels({"town": 3_000_000_000, "land": 1_000_000_000})
    np.testing.assert_array_equal(people.weights, [0.75, 0.25])
    assert not people.history.size
    assert len(labels({"a": LARGEST_PAST}).history) == LARGEST_PAST
    np.testing.assert_array_equal(labels(collections.Counter("abca")).weights, [0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("data", "expected", "weights", "history"),
    [
        (pd.Categorical(["b", "a", "b"], categories=["a", "b", "c"]), "abc", [1 / 3, 2 / 3, 0.0], [1, 0, 1]),
        (pd.Series(["b", "a", "b"], dtype="category"), "ab", [1 / 3, 2 / 3], [1, 0, 1]),
        (pd.Series(["b", "a", "b"]), "ba", [2 / 3, 1 / 3], [0, 1, 0]),
        (pd.Series(["b", "a", "b"], dtype="string", index=[7, 8, 9]), "ba", [2 / 3, 1 / 3], [0, 1, 0]),
    ],
)
def test_a_pandas_column_is_data(data: Any, expected: str, weights: list[float], history: list[int]) -> None:
    found = labels(data)
    assert found.labels == tuple(expected)
    np.testing.assert_array_equal(found.weights, weights)
    np.testing.assert_array_equal(found.history, history)
    assert found.in_order


def test_an_ordered_pandas_column_is_ordinal() -> None:
    found = labels(pd.Categorical(["old"], categories=GROUPS, ordered=True))
    assert found.parameter == drbo.Ordinal(*GROUPS)
    np.testing.assert_array_equal(found.weights, [0.0, 0.0, 1.0])
    assert labels(pd.Series([3, 1], dtype="category")).labels == (1, 3)
    assert labels(pd.Series([True, False, True])).labels == (True, False)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["a", "b", "a"], ValueError, r"collections\.Counter\(labels\)"),
        (["a", None], ValueError, "contexts must not hold None"),
        (["a", float("nan")], ValueError, "contexts must not be missing, got nan"),
        (["a", datetime.date(2026, 1, 31)], TypeError, "such as '2026-01-31'"),
        ([{"a": 1}], TypeError, "contexts must be labels that can be saved"),
        ({"a", "b"}, TypeError, "a set is not: give a list"),
        ({}, ValueError, "contexts must hold at least one label"),
        ({"a": [1, 2]}, TypeError, r"conditions as drbo\.Samples\(table\)"),
        ({"a": 0, "b": 0}, ValueError, "the weights of contexts must sum to 1"),
        ({"a": -1, "b": 2}, ValueError, "must not be negative"),
        ({"a": "x"}, TypeError, r"contexts\['a'\] must be a number"),
        ({"a": 0.5, "b": 0.1}, ValueError, "must sum to 1"),
        (pd.Series(["a", None]), ValueError, "row 1"),
        (pd.Categorical(["a", None]), ValueError, "row 1"),
        (pd.DataFrame({"a": ["x", "y"]}), TypeError, r"labels as drbo\.Samples\(table\)"),
        ("abc", TypeError, "contexts must be an array of numbers"),
        (pd.Categorical([], categories=["a"]), ValueError, "at least one row"),
        (pd.Series(["a", "b", "a"]).value_counts(), TypeError, r"contexts=series\.to_dict\(\), and for the numbers"),
    ],
)
def test_what_labels_may_not_be(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        finite_set("contexts", given)


def test_weights_by_label() -> None:
    found = labels(GROUPS)
    np.testing.assert_array_equal(found.weights_of("reference", {"old": 0.8, "young": 0.2}), [0.2, 0.0, 0.8])
    np.testing.assert_array_equal(found.weights_of("reference", {"old": 3, "young": 1}), [0.25, 0.0, 0.75])
    np.testing.assert_array_equal(found.weights_of("reference", [0.2, 0.0, 0.8]), [0.2, 0.0, 0.8])
    seen = pd.Series(["old", "old", "young", "old"])
    np.testing.assert_array_equal(found.weights_of("reference", seen.value_counts()), [0.25, 0.0, 0.75])
    np.testing.assert_allclose(found.weights_of("reference", {"young": 0.333, "middle": 0.333, "old": 0.333}), 1 / 3)
    for wrong, message in (
        ({"odl": 1.0}, "a key of reference must be one of 'young', 'middle', 'old', got 'odl'"),
        ({"old": 0.5}, "reference must sum to 1"),
        ({"old": -1.0, "young": 2.0}, "must not be negative"),
        ([0.5, 0.5], "must hold 3 weights"),
    ):
        with pytest.raises(ValueError, match=message):
            found.weights_of("reference", wrong)
    with pytest.raises(TypeError, match=r"reference\['old'\] must be a number"):
        found.weights_of("reference", {"old": "much"})


def test_points_have_weights_by_index() -> None:
    points = finite_set("contexts", [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(points.weights_of("reference", {2: 1, 0: 3}), [0.75, 0.0, 0.25])
    with pytest.raises(ValueError, match="a key of reference must be from 0 to 2, got 3"):
        points.weights_of("reference", {3: 1})


def test_what_was_told_wrongly_is_named() -> None:
    found = labels(GROUPS)
    for wrong in ("odl", None, 3, ["old"], np.array([1.0, 2.0]), pd.NA):
        with pytest.raises(ValueError, match="context must be one of 'young', 'middle', 'old', got"):
            found.encode("context", wrong)
    assert repr(found) == "Labels('young', 'middle', 'old')"
