"""Any damage to a file is one clear error, in little time and memory (REVIEW F6)."""

import random
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import Optimizer
from knowledge.damage import damaged, nodes, with_checksums
from optimizer.places import MAKERS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Whole files, short ones."""
    folder = tmp_path_factory.mktemp("whole")
    for make in MAKERS:
        make().save(folder / make.__name__)
    return [(folder / make.__name__).read_bytes() for make in MAKERS]


def check(text: bytes, path: Path, *, save: bool = True) -> bool:
    """Load a damaged file, and return whether it loads; any error must be a ValueError that names the file.

    What loads has a whole history: results can be shown and, which takes longest, it can be saved and loaded again.
    """
    path.write_bytes(text)
    before = time.process_time()
    try:
        opt = Optimizer.load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017 - most files do not load, some do
        return False
    finally:
        assert time.process_time() - before < 2.0
    assert len(opt.results) >= opt.n_told  # an evaluation may have several outcomes
    assert len(list(opt.pending)) <= len(opt.history)
    if save:
        again = path.with_name("again.json")
        again.unlink(missing_ok=True)
        opt.save(again)
        assert Optimizer.load(again).n_told == opt.n_told
    return True


def sweep(files: list[bytes], seeds: range, path: Path) -> float:
    """Check many damaged files, each in at most 2 s, all in 500 MB; return which share of them loads."""
    before, loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for seed in seeds:
        rng = random.Random(seed)
        loaded += check(damaged(rng, rng.choice(files)), path, save=seed % 8 == 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024  # kB
    return loaded / len(seeds)


def test_any_damage_is_one_sentence(files: list[bytes], tmp_path: Path) -> None:
    share = sweep(files, range(2000), tmp_path / "damaged.json")
    assert 0.1 < share < 0.6  # some damage leaves a file that makes sense: another outcome


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_any_damage_is_one_sentence_ten_thousand_times(part: int, files: list[bytes], tmp_path: Path) -> None:
    sweep(files, range(2000 + 1000 * part, 3000 + 1000 * part), tmp_path / "damaged.json")


def test_the_sweep_would_notice_an_error_of_another_kind(
    files: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(*_: Any) -> Any:
        raise KeyError("number")

    monkeypatch.setattr(drbo.knowledge.storage, "_checked_lines", careless)
    with pytest.raises(ValueError, match="is damaged"):  # what `load` makes of it
        Optimizer.load(write(tmp_path, files[0]))
    monkeypatch.setattr(drbo.knowledge.storage.FileContents, "facts", careless)
    monkeypatch.setattr(drbo.knowledge.storage, "told_as_damage", lambda _: np.errstate())
    with pytest.raises(KeyError):
        check(files[0], tmp_path / "damaged.json")


def write(folder: Path, text: bytes) -> Path:
    path = folder / "state.json"
    path.write_bytes(text)
    return path


def test_every_kind_of_node_is_reached() -> None:
    record = {"a": [1, {"b": None}], "c": "d"}
    assert set(nodes(record)) == {(), ("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("c",)}
    assert with_checksums([record]).startswith(b'{"crc":')
