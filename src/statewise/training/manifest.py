"""The one manifest of a run directory: the hash of every file in it, and the folder of the checkpoint that counts.

Directories that earlier versions wrote list the files of their checkpoint only; what they list is checked.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from statewise.errors import RunError, UnreadableError, shorten
from statewise.files import write_whole
from statewise.reading import MAX_JSON_BYTES, parse_form, read_bytes

MANIFEST = "manifest.json"
WEIGHTS, VALUES = "tensors.safetensors", "values.json"
CONFIG, MACHINE, RECORD, NETWORK = "config.json", "machine.json", "record.json", "network.json"
NAMES = "names.json"
SOURCE = "model.py"
# of machines as large as any that is read
MAX_FILE_BYTES = 256_000_000

Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Kept = Literal["config.json", "machine.json", "record.json", "network.json", "names.json", "model.py"]


class Manifest(BaseModel):
    """What a run directory holds.

    Args:
        folder: of the checkpoint; None before the first.
        sha256: the hashes of its files.
        files: the hashes of the other files; None in directories of earlier versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] | None = None
    sha256: dict[Literal["tensors.safetensors", "values.json"], Hash] = Field(default_factory=dict)
    files: dict[Kept, Hash] | None = None

    @model_validator(mode="after")
    def _check_checkpoint(self) -> "Manifest":
        if len(self.sha256) != (0 if self.folder is None else 2):
            raise ValueError("a checkpoint has a folder, and the hashes of two files")
        return self

    @property
    def hashes(self) -> dict[str, str] | None:
        """The hashes of all files but those of the checkpoint; None where an earlier version listed none."""
        return None if self.files is None else {str(name): found for name, found in self.files.items()}

    def to_json(self) -> str:
        """Write the manifest on one line."""
        return json.dumps(self.model_dump(exclude_none=True))


def read_manifest(directory: Path) -> Manifest | None:
    """Read the manifest of a run directory; None where there is none."""
    file = directory / MANIFEST
    if not os.path.lexists(file):
        return None
    try:
        return parse_form(Manifest, read_bytes(file))
    except UnreadableError as error:
        raise RunError(
            f'the checkpoint in "{shorten(directory)}" is incomplete ({MANIFEST}: {shorten(error, 160)}); start anew'
        ) from None


def listed_files(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return what a manifest lists of files."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def write_manifest(directory: Path, files: Mapping[str, str]) -> None:
    """Begin the manifest of a directory whose files are about to be written."""
    write_whole(directory / MANIFEST, Manifest.model_validate({"files": dict(files)}).to_json() + "\n")


def list_file(directory: Path, name: str, content: bytes) -> None:
    """Add a file that was just written to the manifest; an earlier version's list is completed by what stands there."""
    held = read_manifest(directory) or Manifest()
    files = held.hashes
    if files is None:
        there = (other for other in get_args(Kept) if (directory / other).is_file())
        files = listed_files({other: read_bytes(directory / other, MAX_FILE_BYTES) for other in there})
    listed = held.model_dump() | {"files": files | listed_files({name: content})}
    write_whole(directory / MANIFEST, Manifest.model_validate(listed).to_json() + "\n")


def read_kept(directory: Path, name: str, limit: int = MAX_JSON_BYTES) -> bytes:
    """Read a file of a run directory, and compare it with its hash; one that is wrong is one sentence."""
    listed = read_manifest(directory)
    hashes = None if listed is None else listed.hashes
    if hashes is not None and name not in hashes:
        raise RunError(f'"{shorten(directory / name)}" is not in {MANIFEST}; use another directory')
    try:
        return read_bytes(directory / name, limit, None if hashes is None else hashes[name])
    except UnreadableError as error:
        raise RunError(f'"{shorten(directory / name)}" cannot be read: {error}; use another directory') from None


def check_kept(directory: Path, names: Iterable[str]) -> None:
    """Compare files that are there with their hashes, without using them."""
    for name in names:
        if os.path.lexists(directory / name):
            read_kept(directory, name, MAX_FILE_BYTES)
