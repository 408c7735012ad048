"""Files that are there as a whole or not at all, and a lock for those that several processes may write."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
import sys
import time
import weakref
import zlib
from contextlib import AbstractContextManager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PATIENCE = 60.0
"""For how many seconds a lock is waited for. Who holds it writes one file, which takes milliseconds."""

_PAUSE = 0.01
"""Seconds between two tries to get a lock."""

_open_locks: list[weakref.ref[io.FileIO]] = []
"""What `locked` opened last. No set, which Python code would tidy up when a file goes: Ctrl-C is lost in such code."""


def locked(path: Path, *, reading: bool = False) -> AbstractContextManager[object]:
    """Return a context that keeps other processes and threads that lock the same file waiting.

    The lock is a small file in the same folder. It stays there: removing it could let two processes in at once. A
    reader makes none: where there is no lock, nobody has written yet.

    What is returned is the open file itself. The operating system frees the lock when the file is closed, and leaving
    `with` closes it in one step: Ctrl-C can't come in between, as it could with a lock that Python code releases.
    """
    target = resolved(path)
    beside = target.parent / f".drbo-{zlib.crc32(os.fsencode(target.name)):08x}.lock"
    if reading and not os.access(beside, os.R_OK | os.W_OK):
        return contextlib.nullcontext()
    file = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = open(beside, "ab", buffering=0)  # noqa: SIM115 - the caller's `with` closes it
        end = time.monotonic() + PATIENCE
        _note(file)
        while not _take(file.fileno()):
            if time.monotonic() >= end:
                raise TimeoutError(
                    f"{path} is in use: another process has held its lock {beside} for {PATIENCE:g} seconds"
                )
            time.sleep(_PAUSE)
        return file
    except BaseException as error:
        if file is not None:
            file.close()
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, f"{path} could not be locked: {error.strerror}") from error
        raise


def _note(file: io.FileIO) -> None:
    """Take note of a file that is locked, and forget those that are gone; several threads may do so at once."""
    _open_locks.append(weakref.ref(file))
    for gone in [one for one in _open_locks if one() is None]:
        with contextlib.suppress(ValueError):  # another thread has forgotten it
            _open_locks.remove(gone)


def _close_locks_of_the_parent() -> None:
    """Close what another thread held when this process was forked: the lock would last as long as this process."""
    for file in (one() for one in _open_locks):
        if file is not None:
            file.close()


if sys.platform == "win32":

    def _take(descriptor: int) -> bool:
        """Lock a file if nobody else has; return whether it is locked now."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

else:
    os.register_at_fork(after_in_child=_close_locks_of_the_parent)

    def _take(descriptor: int) -> bool:
        """Lock a file if nobody else has; return whether it is locked now."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all, also after a crash of the machine.

    A link is followed, and the mode of a file that exists is kept. What was written in part is removed after an error.
    """
    target = resolved(path)
    name = target.parent / f".drbo-{secrets.token_hex(8)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not (is_plain(target) or target.is_dir()):
            raise OSError(errno.EINVAL, "it is a pipe or a device")
        mode = target.stat().st_mode & 0o7777 if target.exists() else _default_mode()
        with open(name, "x", encoding="utf-8", opener=_open_for_the_owner) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
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


def resolved(path: Path) -> Path:
    """Return the file that a path leads to."""
    try:
        found = path.resolve()
    except RuntimeError:  # links in a circle, before Python 3.13
        found = path
    if found.is_symlink():  # which all links have been followed from: they go round in a circle
        raise OSError(errno.ELOOP, f"{path} could not be found: {os.strerror(errno.ELOOP)}")
    return found


def is_plain(path: Path) -> bool:
    """Return whether there is an ordinary file: neither a folder, nor a pipe or a device, which may never end."""
    return stat.S_ISREG(path.stat().st_mode)


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return what tells whether a file was changed: its inode, size and time; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _open_for_the_owner(name: str, flags: int) -> int:
    """Open a file that nobody else may read while it is written."""
    return os.open(name, flags, 0o600)


def _default_mode() -> int:
    """Return the mode of a new file."""
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
