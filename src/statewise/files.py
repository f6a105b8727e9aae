"""Files written whole or not at all."""

import os
from pathlib import Path

from statewise.errors import FileError, shorten


def write_whole(file: Path, text: str) -> None:
    """Write a text file aside and move it into place, so that an interruption leaves the old one.

    A link is followed; a device or a pipe is written to as it is.
    """
    write_bytes_whole(file, text.encode())


def write_bytes_whole(file: Path, content: bytes) -> None:
    """Write a file of bytes whole or not at all, as `write_whole` does text."""
    try:
        file = Path(os.path.realpath(file))
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            file.write_bytes(content)
            return
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with aside.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(aside, file)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(file, error) from None


def cannot_write(file: Path, error: OSError) -> FileError:
    """Build the error for a file that cannot be written."""
    return FileError(f'cannot write "{shorten(file)}": {reason_of(error)}; choose another place')


def reason_of(error: Exception) -> str:
    """Return the system's own reason, in lower case, for a failed read or write."""
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
