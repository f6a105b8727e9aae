"""Files and folders written whole or not at all: aside first, then to the disk, then swapped into place.

What is written aside is locked while its writer lives, on every file system that has locks. A lock that can be taken
therefore belongs to nobody: a kill left that file, and the next writer of the same name removes it.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from statewise.errors import FileError, shorten

# the disk takes no more: full, over quota, beyond a limit of size, failing, or not to be written
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
# of a name in bytes, so that what is added to it stays within what file systems take
_LONGEST_NAME = 200
_ASIDE = re.compile(r"\..*\.[0-9a-f]{12}\.aside", re.DOTALL)


def write_whole(file: Path, text: str) -> None:
    """Write a text file whole or not at all, as `whole_file` does."""
    write_bytes_whole(file, text.encode())


def write_bytes_whole(file: Path, content: bytes) -> None:
    """Write a file of bytes whole or not at all, as `whole_file` does."""
    with whole_file(file) as stream:
        stream.write(content)


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content becomes the file at the end; on any failure the file before stays.

    A link is followed; a device or a pipe is written to as it is.
    """
    try:
        file = Path(os.path.realpath(file))
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            with file.open("wb") as stream:
                yield stream
            return
        with swapped_file(file) as stream:
            yield stream
    except OSError as error:
        raise cannot_write(file, error) from None


@contextmanager
def swapped_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content takes the place of a file at the end; on any failure the file before stays.

    Raises:
        OSError: where it cannot be written.
    """
    remove_strays(file)
    with _open_aside(file) as (aside, stream):
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        if file.exists():
            # who may read a file does not change with its content
            os.fchmod(stream.fileno(), file.stat().st_mode & 0o7777)
        os.replace(aside, file)
    sync_folder(file.parent)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that takes the place of an empty or absent one at the end; on any failure nothing is left.

    Raises:
        OSError: where it cannot be made, filled or moved.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_aside(folder, 0o777) as aside:
        yield aside
        if folder.is_dir():
            folder.rmdir()
        os.replace(aside, folder)
        sync_folder(folder.parent)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end, or, after a kill, by the next process of this user that asks for one.

    Raises:
        FileError: where there is no room for it.
    """
    try:
        place = Path(tempfile.gettempdir()) / f"statewise-{os.getuid()}"
        with folder_aside(place) as aside:
            yield aside
    except OSError as error:
        if error.errno not in FULL and not isinstance(error, FileNotFoundError):
            raise
        raise FileError(f"cannot write temporary files: {reason_of(error)}; make room, or set TMPDIR") from None


@contextmanager
def folder_aside(place: Path, mode: int = 0o700) -> Iterator[Path]:
    """Yield a new folder beside a place, which is removed at the end unless it has been moved by then."""
    remove_strays(place)
    while True:
        aside = aside_of(place)
        aside.mkdir(mode=mode)
        try:
            lock = os.open(aside, os.O_RDONLY)
            try:
                if not _hold(lock):
                    continue
                yield aside
                return
            finally:
                os.close(lock)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def aside_of(place: Path) -> Path:
    """Return a new name beside a file or a folder, under which it is written."""
    return place.with_name(f".{_stem(place)}.{secrets.token_hex(6)}.aside")


def remove_strays(place: Path) -> None:
    """Remove what a kill left while it wrote this file or folder."""
    with suppress(OSError):
        for left in place.parent.glob(f".{_escaped(_stem(place))}.*.aside"):
            _remove_if_stray(left)


def remove_strays_in(folder: Path) -> None:
    """Remove what a kill left in a folder, whatever was written there."""
    with suppress(OSError):
        for left in folder.glob(".*.aside"):
            _remove_if_stray(left)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(file: Path, error: OSError) -> FileError:
    """Build the error for a file that cannot be written."""
    kept = "; the file before stays" if file.is_file() else ""
    return FileError(f'cannot write "{shorten(file)}": {reason_of(error)}{kept}; choose another place')


def reason_of(error: Exception) -> str:
    """Return the system's own reason, in lower case, for a failed read or write."""
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


@contextmanager
def _open_aside(file: Path) -> Iterator[tuple[Path, BinaryIO]]:
    while True:
        aside = aside_of(file)
        try:
            with aside.open("xb") as stream:
                if not _hold(stream.fileno()):
                    continue
                yield aside, stream
                return
        finally:
            aside.unlink(missing_ok=True)


def _remove_if_stray(left: Path) -> None:
    if not _ASIDE.fullmatch(left.name) or left.is_symlink():
        return
    with suppress(OSError):
        descriptor = os.open(left, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if os.fstat(descriptor).st_uid != os.getuid():
                return
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        finally:
            os.close(descriptor)


def _hold(descriptor: int) -> bool:
    """Lock what was just made; return whether nobody has taken it for a stray and removed it before."""
    # on a file system without locks nothing is ever taken for a stray
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def _stem(place: Path) -> str:
    name = place.name
    return name if len(os.fsencode(name)) <= _LONGEST_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
