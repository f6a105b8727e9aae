"""Locks of directories: files that one process holds, and that the system releases however that process ends."""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

# as NFS and the local file systems say that another process holds a lock
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


class HeldError(Exception):
    """A lock that another process holds; its text names the holder."""


class NoLocksError(Exception):
    """A file system that has no locks; its text is the system's reason."""


def take_lock(file: Path) -> int:
    """Take a lock, and return its descriptor; closing that releases it.

    Raises:
        HeldError: if another process holds it.
        NoLocksError: if the file system has no locks.
        OSError: if the file cannot be written.
    """
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(lock)
        except BaseException:
            os.close(lock)
            raise
        # one that was removed in the meantime locks nothing; the next one has another file
        if os.fstat(lock).st_nlink > 0:
            break
        os.close(lock)
    # who holds it is for people to read, and may not fit on a full disk
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    return lock


def remove_lock(file: Path, lock: int) -> None:
    """Release a lock that this process holds, and remove its file."""
    with suppress(OSError):
        # one that was removed before may have a successor
        if os.fstat(lock).st_nlink > 0:
            file.unlink()
    os.close(lock)


def is_held(file: Path) -> bool:
    """Return whether a process holds a lock; one that cannot be asked is not held."""
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(lock)
    return False


def _lock(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            holder = os.read(lock, 200).decode(errors="replace").strip() or "another process"
            raise HeldError(holder) from None
        raise NoLocksError((error.strerror or str(error)).lower()) from None
