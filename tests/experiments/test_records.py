"""Records on disk: nothing half-written, nothing lost, nothing mixed with other settings."""

from pathlib import Path

import numpy as np

from drbo._files import write_atomically
from drbo.experiments.records import Store, Table, read_csv, select, stack, to_csv


def table(start: int) -> Table:
    numbers = np.arange(start, start + 3)
    return {"name": np.array(["a", "b", "c"]), "number": numbers, "value": numbers / 7.0}


def same(a: Table, b: Table) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[k], b[k]) for k in a)


def test_csv_keeps_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_atomically(path, to_csv(table(0)))
    assert same(read_csv(path), table(0))
    assert list(tmp_path.iterdir()) == [path]


def test_select_and_stack() -> None:
    both = stack([table(0), table(3)])
    assert both["number"].tolist() == [0, 1, 2, 3, 4, 5]
    assert select(both, name="b")["number"].tolist() == [1, 4]


def test_a_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = Store(tmp_path, "s", {"seed": 0})
    first.add("one", table(0))
    assert same(first.collect(["one", "two"]), table(0))  # what an interrupt leaves behind
    second = Store(tmp_path, "s", {"seed": 0})
    assert second.has("one")
    assert not second.has("two")
    second.add("two", table(3))
    assert same(second.collect(["one", "two"]), stack([table(0), table(3)]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.csv", "s.json"]
    third = Store(tmp_path, "s", {"seed": 0})
    assert third.has("one")
    assert same(third.collect(["one", "two"]), stack([table(0), table(3)]))


def test_other_settings_start_afresh(tmp_path: Path) -> None:
    first = Store(tmp_path, "s", {"seed": 0})
    first.add("one", table(0))
    first.collect(["one", "two"])
    other = Store(tmp_path, "s", {"seed": 1})
    assert not other.has("one")
    assert not (tmp_path / "s.csv").exists()
    other.add("one", table(7))
    assert same(other.collect(["one"]), table(7))
    back = Store(tmp_path, "s", {"seed": 0})  # nothing was lost
    assert back.has("one")
    assert not back.has("two")
    assert same(back.collect(["one", "two"]), table(0))


def test_records_do_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    store = Store(tmp_path, "s", {})
    store.add("two", table(3))
    store.add("one", table(0))
    assert same(store.collect(["one", "two"]), stack([table(0), table(3)]))
