"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all, also after a crash of the machine.

    A link is followed, and the mode of a file that exists is kept. What was written in part is removed after an error.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    descriptor, name = tempfile.mkstemp(prefix=".drbo-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _default_mode() if mode is None else mode)
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{path} could not be written: {error.strerror}") from error
        raise
    _sync_folder(target.parent)


def append(path: Path, text: str) -> None:
    """Append to a file that exists; the text has reached the disk when this returns."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}") from error


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return what tells whether a file was changed: its inode, size and time; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _default_mode() -> int:
    """Return the mode of a new file: a temporary one is readable by its owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Let the new name itself reach the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
