"""Files are there as a whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from drbo._files import append, signature, write_atomically


def fail_to_sync(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_new_file_has_the_text_and_the_usual_mode(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", "zweiundvierzig Äpfel\n")
    assert (tmp_path / "a" / "b" / "file").read_text(encoding="utf-8") == "zweiundvierzig Äpfel\n"
    (tmp_path / "usual").touch()
    assert (tmp_path / "a" / "b" / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_a_file_that_exists_is_kept(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [p.name for p in target.parent.iterdir()] == ["target"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_leaves_the_old_file_and_nothing_else_and_names_the_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, step, lambda *_: fail_to_sync(0))
    with pytest.raises(OSError, match=f"{path} could not be written: No space left on device") as caught:
        write_atomically(path, "new")
    assert caught.value.errno == errno.ENOSPC
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder could not be written: Is a directory"):
        write_atomically(tmp_path / "folder", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file" / "inner", "text")


def test_append_adds_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one\n")
    append(path, "zwei Äpfel\n")
    assert path.read_text(encoding="utf-8") == "one\nzwei Äpfel\n"


def test_append_goes_on_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "file", os.write
    path.touch()
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    append(path, "0123456789")
    assert path.read_text() == "0123456789"


def test_append_makes_no_file_and_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent could not be written: No such file"):
        append(tmp_path / "absent", "text")
    assert list(tmp_path.iterdir()) == []


def test_append_names_the_file_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", fail_to_sync)
    with pytest.raises(OSError, match="file could not be written: No space left on device"):
        append(tmp_path / "file", "text")


def test_a_signature_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert signature(path) is None
    write_atomically(path, "one")
    first = signature(path)
    assert first == signature(path)
    append(path, "more")
    second = signature(path)
    assert second != first
    write_atomically(path, "onemore")  # the same size, another file
    assert signature(path) != second
