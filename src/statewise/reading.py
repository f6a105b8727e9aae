"""Files of others, read within bounds: regular files only, of a bounded size, and JSON of one meaning.

What cannot be read is an `UnreadableError` whose text is the reason alone; the caller adds which file and what to do.
"""

import hashlib
import json
import os
import stat
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from statewise.errors import TooLargeError, UnreadableError, shorten
from statewise.files import reason_of
from statewise.wording import counted

MAX_JSON_BYTES = 64_000_000
MAX_WEIGHT_BYTES = 4_000_000_000
MAX_NESTING = 100
# a file above this size is compared with its hash before it is held in memory
_STREAMED_BYTES = 64_000_000
_PART_BYTES = 1 << 20

Form = TypeVar("Form", bound=BaseModel)


class _OversizedError(UnreadableError, TooLargeError):
    """A file above its bound."""


def read_bytes(file: str | os.PathLike[str], limit: int = MAX_JSON_BYTES, sha256: str | None = None) -> bytes:
    """Read a regular file of at most so many bytes; a pipe, a device, or a file of another hash is refused.

    Args:
        file: its path; links are followed.
        limit: of its size.
        sha256: the hash that it must have.
    """
    try:
        # without this flag the opening of a pipe waits for a writer
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableError("it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no regular file")
            if found.st_size > limit:
                raise _OversizedError(f"it has {found.st_size:,} bytes, and at most {limit:,} are read")
            if sha256 is not None and found.st_size > _STREAMED_BYTES:
                hashed = hashlib.sha256()
                while part := stream.read(_PART_BYTES):
                    hashed.update(part)
                _need_hash(hashed.hexdigest(), sha256)
                stream.seek(0)
            # it may grow while it is read
            content = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(reason_of(error)) from None
    if len(content) > limit:
        raise _OversizedError(f"it has more than {limit:,} bytes")
    if sha256 is not None:
        _need_hash(hashlib.sha256(content).hexdigest(), sha256)
    return content


def _need_hash(found: str, expected: str) -> None:
    if found != expected:
        raise UnreadableError("it is damaged: its hash differs")


def read_text(file: str | os.PathLike[str], limit: int = MAX_JSON_BYTES) -> str:
    """Read a regular file as UTF-8, with or without a mark at its beginning."""
    return decode(read_bytes(file, limit))


def decode(content: bytes) -> str:
    """Return bytes as text."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("it is not UTF-8 text") from None


def parse_json(content: bytes | str) -> Any:
    """Parse JSON that has one meaning: no key twice, no half of a pair of surrogates, no deep nesting."""
    text = content if isinstance(content, str) else decode(content)
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise UnreadableError(f"it nests more than {MAX_NESTING} deep") from None
    except ValueError as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"it is not JSON: {shorten(error)}") from None
    _check_nesting(value)
    # only escapes can make half a pair, since UTF-8 has none
    if "\\u" in text or isinstance(content, str):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UnreadableError("it has half of a pair of surrogates, which is no character") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise UnreadableError(f'its key "{shorten(twice)}" occurs twice')
    return found


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MAX_NESTING + 1):
        inner: list[Any] = []
        for held in level:
            if isinstance(held, dict):
                inner += [part for part in held.values() if isinstance(part, dict | list)]
            elif isinstance(held, list):
                inner += [part for part in held if isinstance(part, dict | list)]
        if not inner:
            return
        level = inner
    raise UnreadableError(f"it nests more than {MAX_NESTING} deep")


def parse_form(form: type[Form], content: bytes | str) -> Form:
    """Parse JSON of a known form; the first thing that is wrong is the reason."""
    parse_json(content)
    try:
        return form.model_validate_json(content)
    except (ValidationError, RecursionError) as error:
        raise UnreadableError(_first_fault(error)) from None


def _first_fault(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return f"it nests more than {MAX_NESTING} deep"
    first = error.errors(include_url=False)[0]
    where = shorten(".".join(map(str, first["loc"])))
    value = first["input"]
    shown = f"with {counted(len(value), 'part')}" if isinstance(value, dict | list) else shorten(repr(value), 40)
    found = f"{where} is {shown}" if where else f"it is {shown}"
    return f"{found}: {shorten(first['msg'], 120).lower()}"
