"""Atomic file writes, and a lock for files that several processes may write."""

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

from drbo._messages import printable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PATIENCE = 60.0
"""Seconds to wait for a lock. Its holder writes one file, which takes milliseconds."""

_PAUSE = 0.01
"""Seconds between two attempts to get a lock."""

_BINARY = getattr(os, "O_BINARY", 0)
"""Windows would write a line feed as two characters."""

_open_locks: list[weakref.ref[io.FileIO]] = []
"""Files opened by `locked`. Not a WeakSet: its Python callbacks can swallow Ctrl-C."""


def locked(path: Path, *, reading: bool = False) -> AbstractContextManager[object]:
    """Return a context manager that locks a file against other processes and threads.

    The lock is an empty file in the same folder, which `remove_lock` removes before the lock is free. Whoever waited
    for a lock that was removed asks again, so that two processes never hold it at once. A reader does not create it: a
    file that is being appended to looks like that of a moment before.

    The context manager is the open lock file itself. The operating system frees the lock when the file is closed, and
    leaving `with` closes it in one step. Ctrl-C cannot come in between, as it could with a release in Python code.
    """
    target = resolved(path)
    beside = _lock_of(target)
    if reading and not os.access(beside, os.R_OK | os.W_OK):
        return contextlib.nullcontext()
    file = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = open(beside, "ab", buffering=0)  # noqa: SIM115 - the caller's `with` closes it
        end = time.monotonic() + PATIENCE
        _note(file)
        while True:
            if _take(file.fileno()):
                if reading or _is_at(file, beside):
                    break
                file.close()  # another process has removed this lock
                file = open(beside, "ab", buffering=0)  # noqa: SIM115 - the caller's `with` closes it
                _note(file)
                continue
            if time.monotonic() >= end:
                raise TimeoutError(
                    f"{printable(path)} is in use: another process has held its lock {printable(beside)} for "
                    f"{PATIENCE:g} seconds"
                )
            time.sleep(_PAUSE)
        return file
    except BaseException as error:
        if file is not None:
            file.close()
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, f"{printable(path)} could not be locked: {error.strerror}") from error
        raise


def remove_lock(path: Path) -> None:
    """Remove the lock file of a file; the caller holds the lock. Where the system forbids it, the file stays."""
    with contextlib.suppress(OSError):
        _lock_of(resolved(path)).unlink()


def _lock_of(target: Path) -> Path:
    return target.parent / f".drbo-{zlib.crc32(os.fsencode(target.name)):08x}.lock"


def _is_at(file: io.FileIO, path: Path) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _note(file: io.FileIO) -> None:
    """Record a locked file and drop the closed ones; several threads may call this at once."""
    _open_locks.append(weakref.ref(file))
    for gone in [one for one in _open_locks if one() is None]:
        with contextlib.suppress(ValueError):  # another thread has removed it
            _open_locks.remove(gone)


def _close_locks_of_the_parent() -> None:
    """Close locks that another thread held at the fork; otherwise they would last until this process ends."""
    for file in (one() for one in _open_locks):
        if file is not None:
            file.close()


if sys.platform == "win32":

    def _take(descriptor: int) -> bool:
        """Lock a file; return False if another process holds the lock."""
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
        """Lock a file; return False if another process holds the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all, even if the machine crashes.

    Symbolic links are followed, and an existing file keeps its mode. A partial file is removed after an error.
    """
    target = resolved(path)
    name = target.parent / f".drbo-{secrets.token_hex(8)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not (is_plain(target) or target.is_dir()):
            raise OSError(errno.EINVAL, "it is a pipe or a device")
        mode = target.stat().st_mode & 0o7777 if target.exists() else _default_mode()
        with open(name, "x", encoding="utf-8", newline="\n", opener=_open_for_the_owner) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        _replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{printable(path)} could not be written: {error.strerror}") from error
        raise
    _sync_folder(target.parent)


def _replace(name: Path, target: Path) -> None:
    """Replace a file by another one; on Windows, wait while another program has that open."""
    end = time.monotonic() + (PATIENCE if sys.platform == "win32" else 0.0)
    while True:
        try:
            os.replace(name, target)
            return
        except PermissionError:
            if time.monotonic() >= end or target.is_dir():
                raise
        time.sleep(_PAUSE)


def append(path: Path, text: str) -> None:
    """Append to an existing file; the text is on the disk when this returns."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"{printable(path)} could not be written: {error.strerror}") from error


def resolved(path: Path) -> Path:
    """Return the file that a path leads to."""
    try:
        found = path.resolve()
    except RuntimeError:  # circular links, before Python 3.13
        found = path
    if found.is_symlink():  # still a link after resolving: circular
        raise OSError(errno.ELOOP, f"{printable(path)} could not be found: {os.strerror(errno.ELOOP)}")
    return found


def is_plain(path: Path) -> bool:
    """Return whether the path is an ordinary file: not a folder, a pipe or a device, which may never end."""
    return stat.S_ISREG(path.stat().st_mode)


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and modification time, which show whether a file changed; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _open_for_the_owner(name: str, flags: int) -> int:
    """Open a file that only its owner may read while it is written."""
    return os.open(name, flags, 0o600)


def _default_mode() -> int:
    """Return the mode of a new file."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Flush the folder entry of a new file to the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
