"""Tables of numbers and labels without a box: which columns are what, and what is refused with the remedy."""

import datetime
import enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import Optimizer, Samples
from drbo.spaces import Point
from drbo.spaces.samples import DataRange, TableRange
from tolerances import ROUNDING

FRAME = pd.DataFrame(
    {
        "temp": [3.0, 7.0, 5.0, 3.0],
        "age": ["young", "old", "old", "young"],
        "smoker": [True, False, False, True],
        "ward": pd.Categorical(["b", "a", "b", "b"], categories=["a", "b", "c"]),
        "size": pd.Categorical(["S", "L", "M", "S"], categories=["S", "M", "L"], ordered=True),
    }
)


class Shift(enum.Enum):
    EARLY = 1
    LATE = 2


def parameters(samples: Samples) -> dict[str, Any]:
    assert isinstance(samples.space, TableRange)
    return samples.space.parameters


def test_columns_are_what_they_look_like() -> None:
    samples = Samples(FRAME)
    kinds = parameters(samples)
    assert kinds["age"] == drbo.Categorical("young", "old")
    assert kinds["smoker"] == drbo.Categorical(False, True)
    assert kinds["ward"] == drbo.Categorical("a", "b", "c")
    assert kinds["size"] == drbo.Ordinal("S", "M", "L")
    np.testing.assert_array_equal(
        samples.points,
        [
            [0.0, 1, 0, 0, 1, 0, 1, 0, 0.0],
            [1.0, 0, 1, 1, 0, 1, 0, 0, 1.0],
            [0.5, 0, 1, 1, 0, 0, 1, 0, 0.5],
            [0.0, 1, 0, 0, 1, 0, 1, 0, 0.0],
        ],
    )
    row = {"temp": 7.0, "age": "old", "smoker": False, "ward": "a", "size": "L"}
    assert samples.space.decode(Point(samples.points[1])) == row
    for value in (row, pd.Series(row), list(row.values())):
        np.testing.assert_array_equal(samples.encode("context", value).coordinates, samples.points[1])
    assert repr(samples) == "Samples(4 of temp, age, smoker, ward, size)"


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["x", "y"], drbo.Categorical("x", "y")),
        (pd.array(["x", "y"], dtype="string"), drbo.Categorical("x", "y")),
        (np.array(["x", "y"]), drbo.Categorical("x", "y")),
        ([np.True_, False], drbo.Categorical(False, True)),
        (pd.array([True, True], dtype="boolean"), drbo.Categorical(False, True)),
        ([("x", 1), ("y", 2)], drbo.Categorical(("x", 1), ("y", 2))),
        (list(Shift), drbo.Categorical(*Shift)),
        (["01", "02"], drbo.Categorical("01", "02")),
    ],
)
def test_labels(column: Any, expected: Any) -> None:
    frame = pd.DataFrame({"a": pd.Series(column), "b": [1.0, 2.0]})
    assert parameters(Samples(frame))["a"] == expected
    if not hasattr(column, "dtype"):
        assert parameters(Samples({"a": column, "b": [1.0, 2.0]}))["a"] == expected


@pytest.mark.parametrize("column", [[1, 2], [1.5, 2], np.array([1, 2], dtype=object), pd.array([1, 2], dtype="Int64")])
def test_numbers(column: Any) -> None:
    samples = Samples(pd.DataFrame({"a": column}))
    assert isinstance(samples.space, DataRange)
    np.testing.assert_array_equal(samples.points, [[0.0], [1.0]])
    assert isinstance(Samples({"a": column}).space, DataRange)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2026-01-01", "2026-01-02"]), "the day of the year, or to labels such as the weekday"),
        ([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], "column 'a' holds dates or times"),
        (pd.period_range("2026-01", periods=2, freq="M"), "column 'a' holds dates or times"),
        (pd.to_timedelta([1, 2], unit="h"), "column 'a' holds dates or times"),
        (np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]"), "column 'a' holds dates or times"),
        (["x", None], "row 1 of column 'a' does"),
        (pd.Categorical(["x", None]), "row 1 of column 'a' does"),
        (pd.array(["x", pd.NA], dtype="string"), "row 1 of column 'a' does"),
        (pd.array([1, pd.NA], dtype="Int64"), "row 1 of column 'a' does"),
        (pd.array([True, pd.NA], dtype="boolean"), "row 1 of column 'a' does"),
        ([1.0, float("nan")], "row 1 of column 'a' does"),
        ([1.0, float("inf")], "got inf in row 1 of column 'a'"),
        ([3.5, "n/a"], "holds 3.5 in row 0 and 'n/a' in row 1"),
        (["<1", "3"], r"holds '<1' in row 0 and '3' in row 1; .* labels=\{'a': drbo.Categorical"),
        ([True, 3], "columns of one kind"),
        ([object(), object()], "column 'a' of data must be labels that can be saved"),
        ([[1, 2], [3, 4]], "column 'a' of data must be labels that can be saved"),
        ([1j, 2j], "column 'a' of data must be labels that can be saved"),
    ],
)
def test_what_is_refused(column: Any, message: str) -> None:
    table = {"a": column, "b": ["u", "v"]}
    with pytest.raises((TypeError, ValueError), match=message):
        Samples(table)
    if np.ndim(column) == 1:
        with pytest.raises((TypeError, ValueError), match=message):
            Samples(pd.DataFrame(table))


def test_what_a_column_is_may_be_said() -> None:
    said = Samples({"store": [3, 1, 3], "kids": ["0", "3+", "1"]}, labels={
        "store": drbo.Categorical(1, 2, 3), "kids": drbo.Ordinal("0", "1", "2", "3+")})  # fmt: skip
    np.testing.assert_allclose(said.points, [[0, 0, 1, 0.0], [1, 0, 0, 1.0], [0, 0, 1, 1 / 3]])
    for wrong, message in (
        ({"stor": drbo.Categorical(1)}, "labels has unknown stor; the columns are store"),
        ({"store": (0.0, 1.0)}, r"labels\['store'\] must be drbo.Categorical\(...\) or drbo.Ordinal"),
        ({"store": drbo.Categorical(1, 2)}, r"data\[0\]\['store'\] must be one of 1, 2, got 3"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            Samples({"store": [3, 1]}, labels=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="labels must not be given with within"):
        Samples({"a": [1]}, within=drbo.Box(a=(0.0, 1.0)), labels={})
    with pytest.raises(TypeError, match="labels must be given for columns with names"):
        Samples([1.0, 2.0], labels={"a": drbo.Categorical(1.0, 2.0)})


def test_arrays_of_labels_need_names() -> None:
    rows = [["young", 1.0], ["old", 3.0]]
    assert parameters(Samples(rows, names=["age", "temp"]))["age"] == drbo.Categorical("young", "old")
    assert parameters(Samples(["young", "old"], names=["age"])) == {"age": drbo.Categorical("young", "old")}
    for data in (rows, ["young", "old"]):
        with pytest.raises(TypeError, match="have names for its columns"):
            Samples(data)
    with pytest.raises(ValueError, match="names must be 2 different names"):
        Samples(rows, names=["age"])
    with pytest.raises(ValueError, match="data must have at least one column"):
        Samples({})
    with pytest.raises(ValueError, match="data must have at least one column"):
        Samples(pd.DataFrame())


def test_a_mixed_table_in_an_optimizer(tmp_path: Path) -> None:
    samples = Samples(FRAME, [1, 1, 1, 3])
    opt = Optimizer(np.linspace(0, 1, 5), samples, setting=drbo.Simulator(radius=0.2, pick="uncertain"))
    for _ in range(4):
        s = opt.ask()
        opt.tell(s, float(s.action[0] * (s.context["age"] == "old") + s.context["temp"]))
    opt.tell([0.5], 1.0, context={**s.context, "temp": 8.0})
    with pytest.warns(UserWarning, match=r"temp = 70 \(the samples go from 3 to 7\)"):
        opt.tell([0.5], 1.0, context={**s.context, "temp": 70.0})
    opt.retract(5)
    with pytest.raises(ValueError, match=r"context\['age'\] must be one of 'young', 'old', got 'odl'"):
        opt.tell([0.5], 1.0, context={**s.context, "age": "odl"})
    opt.save(tmp_path / "run")
    loaded = Optimizer.load(tmp_path / "run")
    assert parameters(loaded.configuration.contexts) == parameters(samples)  # type: ignore[arg-type]
    assert loaded.results == opt.results
    assert str(loaded.recommend()) == str(opt.recommend())
    assert loaded.ask() == opt.ask()
    assert set(opt.to_frame().columns) >= {"temp", "age", "smoker", "ward", "size", "action"}
    np.testing.assert_allclose(s.reference.sum(), 1.0)
    assert len(s.reference) == 3 + 64  # three rows differ; further points, as a column is continuous


ONE = {"age": ["young", "old", "old", "kid", "teen", "adult", "old", "kid", "kid", "kid"]}
SHARES = {"young": 0.1, "old": 0.3, "kid": 0.4, "teen": 0.1, "adult": 0.1}
LABELS = drbo.Box(age=drbo.Categorical(*SHARES))


@pytest.mark.parametrize("within", [None, LABELS], ids=["table", "within"])
@pytest.mark.parametrize(
    "setting", [drbo.Simulator(radius=0.1, pick="uncertain"), drbo.DataDriven(radius=0.1)], ids=["sim", "data"]
)
def test_five_labels_are_five_atoms(within: Any, setting: Any) -> None:
    opt = Optimizer(np.linspace(0, 1, 5), Samples(ONE, within=within), setting=setting, surrogate=FIXED)
    s, r = opt.ask(), opt.recommend()
    assert len(s.reference) == 5
    for context, weight in zip(r.contexts, r.reference, strict=True):
        assert weight == pytest.approx(SHARES[context["age"]], rel=ROUNDING)


FIXED = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.7)), noise=0.05)


def test_a_box_of_labels_is_its_combinations() -> None:
    ordinal = drbo.Ordinal("S", "M", "L")
    for box, count in ((LABELS, 5), (drbo.Box(age=LABELS.parameters["age"], size=ordinal), 15), (
        drbo.Box(a=drbo.Integer(1, 10), b=drbo.Integer(1, 15)), 150)):  # fmt: skip
        opt = Optimizer(
            np.linspace(0, 1, 5), box, setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
        )
        np.testing.assert_allclose(opt.ask().reference, np.full(count, 1.0 / count), rtol=ROUNDING)
        r = opt.recommend()
        assert len({str(context) for context in r.contexts}) == len(r.contexts) == count
    many = drbo.Box(a=drbo.Integer(1, 100), b=drbo.Integer(1, 100))
    r = Optimizer(
        np.linspace(0, 1, 5), many, setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
    ).recommend()
    assert len({str(context) for context in r.contexts}) == len(r.contexts)


def test_combinations_that_no_row_shows_are_further_atoms() -> None:
    table = {"age": ["young", "old", "young"], "smoker": [True, False, True]}
    opt = Optimizer([0.0, 1.0], Samples(table), setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED)
    r = opt.recommend()
    weights = {(c["age"], c["smoker"]): w for c, w in zip(r.contexts, r.reference, strict=True)}
    assert weights == {
        ("young", True): pytest.approx(2 / 3), ("old", False): pytest.approx(1 / 3), ("young", False): 0.0,
        ("old", True): 0.0,
    }  # fmt: skip
    seen_only = Optimizer(
        [0.0, 1.0], Samples(table, support=0), setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
    )
    assert len(seen_only.recommend().contexts) == 2
