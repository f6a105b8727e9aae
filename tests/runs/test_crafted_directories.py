"""Run directories made by someone else: each is refused in one sentence, or answers as the run that it is.

A generator mutates every file of a directory. Those that are sealed have the hashes of what was mutated, as someone
with the wish to would write them.
"""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import statewise as sw
from statewise.errors import StatewiseError
from statewise.runs import PlannedRun, execute_one
from statewise.store import run_files
from statewise.training.manifest import MANIFEST
from tests.command import statewise

# what may stand where something else should
VALUES = [None, -1, 0, 2**70, 1e308, True, "", "x\u001b[31m", [], [[]], {}, {"a": 1}]
TEXTS = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"text"',
    "number": b"1e999",
    "not UTF-8": b'{"format": "\xff"}',
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "huge number": b'{"format": ' + b"9" * 10_000 + b"}",
    "zeros": bytes(1_000),
}


def seal(place: Path) -> None:
    """Write the hashes of what stands in a directory into its manifest."""
    listed = json.loads((place / MANIFEST).read_text())
    for name in listed["files"]:
        if (place / name).is_file():
            listed["files"][name] = hashlib.sha256((place / name).read_bytes()).hexdigest()
    for name in listed["sha256"]:
        listed["sha256"][name] = hashlib.sha256((place / listed["folder"] / name).read_bytes()).hexdigest()
    (place / MANIFEST).write_text(json.dumps(listed))


def parts_of(value, path=()):
    """Yield the place of every part of a JSON value, at most two to a list."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, part in children:
        yield from parts_of(part, (*path, name))


def with_part(value, path, part):
    """Return a copy of a JSON value with a part replaced; one that is replaced by `...` is left out."""
    made = json.loads(json.dumps(value))
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    if part is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = part
    return made


def mutated_texts(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may stand in place of a JSON file."""
    yield from TEXTS.items()
    yield "half", content[: len(content) // 2]
    value = json.loads(content)
    twice = json.dumps(value)
    yield "a key twice", (twice[:-1] + ", " + twice[1:]).encode()
    yield "a surrogate", (twice[:-1] + ', "more": "\\ud800"}').encode()
    yield "another key", (twice[:-1] + ', "more": 1}').encode()
    for number, path in enumerate(parts_of(value)):
        for part in (..., VALUES[number % len(VALUES)]):
            yield f"{path} is {part!r}", json.dumps(with_part(value, path, part)).encode()


def header(tensors: object, rest: bytes = b"") -> bytes:
    """Return a safetensors file with a header of one's own."""
    written = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return struct.pack("<Q", len(written)) + written + rest


def mutated_weights(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may stand in place of a file of weights."""
    (size,) = struct.unpack_from("<Q", content)
    listed, rest = json.loads(content[8 : 8 + size]), content[8 + size :]
    yield from TEXTS.items()
    yield "half", content[: len(content) // 2]
    yield "a length past the end", struct.pack("<Q", 2**63) + content[8:]
    yield "a header that is no object", header([1, 2])
    yield "a deep header", header(b"[" * 100_000 + b"]" * 100_000)
    yield "no tensors", header({})
    name = next(name for name in listed if name.startswith("model."))
    for change in (
        {"dtype": "F64"},
        {"dtype": "I64"},
        {"dtype": "NONE"},
        {"shape": [-1]},
        {"shape": [2**62, 2**62]},
        {"shape": []},
        {"data_offsets": [0, 2**63]},
        {"data_offsets": [8, 0]},
        {"data_offsets": []},
    ):
        yield f"{change}", header(listed | {name: listed[name] | change}, rest)
    yield "a name is missing", header({other: held for other, held in listed.items() if other != name}, rest)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Run directories of each kind: trained, compiled, of own sequences, and half-way."""
    folder = tmp_path_factory.mktemp("runs")
    small = {"model": "full", "hidden": 2, "steps": 4, "every": 2, "words": 4, "test_lengths": [5], "probe": [5]}
    sw.train(config={"task": "parity", **small}, out=folder / "trained")
    sw.compile("parity", out=folder / "compiled")
    words = [(["a", "b"] * n + ["a"], n % 2) for n in range(40)]
    file = folder / "words.jsonl"
    file.write_text("".join(json.dumps({"word": word, "label": str(label)}) + "\n" for word, label in words))
    sw.train(words=file, config=small | {"test_lengths": [31], "probe": [31]}, out=folder / "words")
    shutil.copytree(folder / "trained", folder / "half")
    (folder / "half" / "record.json").unlink()
    return folder


def use(place: Path) -> list[str]:
    """Do with a directory what commands do, and return the sentences of those that refuse."""

    def resume():
        run = sw.load(place)
        if run.options is not None:
            execute_one(PlannedRun(run.options, place, run.source), lambda *anything: None)

    said = []
    for call in (lambda: sw.load(place).model, resume, lambda: run_files(place), lambda: str(sw.load(place))):
        try:
            call()
        except StatewiseError as error:
            assert error.exit_code == 2, error
            assert len(str(error)) < 700, error
            assert str(error).isprintable(), error
            said.append(str(error))
    return said


def files_of(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


CASES = [
    ("trained", "config.json"),
    ("trained", "machine.json"),
    ("trained", "record.json"),
    ("trained", MANIFEST),
    ("half", "values.json"),
    ("half", "tensors.safetensors"),
    ("compiled", "network.json"),
    ("compiled", "tensors.safetensors"),
    ("words", "names.json"),
]


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("sealed", [False, True])
def test_mutated_files_end_in_one_sentence(places, tmp_path, kind, name, sealed):
    if sealed and name == MANIFEST:
        return
    place = tmp_path / "run"
    shutil.copytree(places / kind, place)
    path = next(file for file in files_of(place) if file.endswith(name))
    content, refused = (place / path).read_bytes(), 0
    mutate = mutated_weights if name.endswith("safetensors") else mutated_texts
    for what, mutated in mutate(content):
        shutil.rmtree(place)
        shutil.copytree(places / kind, place)
        (place / path).write_bytes(mutated)
        if sealed:
            seal(place)
        said = use(place)
        refused += bool(said)
        # without its hash every change is noticed, but for a manifest that says the same in another way
        assert said or sealed or name == MANIFEST, (what, mutated[:200])
    assert refused >= 20


@pytest.mark.parametrize("kind", ["trained", "compiled", "words", "half"])
def test_what_is_no_regular_file_is_refused_at_once(places, tmp_path, kind):
    for path in files_of(places / kind):
        for number, put in enumerate((os.mkfifo, os.mkdir, lambda file: os.symlink("/dev/zero", file), sparse)):
            place = tmp_path / f"{number}-{path.replace('/', '-')}"
            shutil.copytree(places / kind, place)
            (place / path).unlink()
            put(place / path)
            assert use(place), path


def sparse(file: Path) -> None:
    """Make a file that claims to be large and takes no space."""
    with file.open("wb") as stream:
        stream.truncate(20_000_000_000)


def test_the_command_line_says_one_sentence(places, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(places / "trained", place)
    (place / "machine.json").unlink()
    os.mkfifo(place / "machine.json")
    done = statewise("evaluate", place)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "it is no regular file" in done.stderr
