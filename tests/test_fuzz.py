"""Every reader on inputs that a generator makes and mutates: an answer or an error of our own, never anything else.

A few dozen inputs for each reader by default, 20,000 with -m slow.
"""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import statewise as sw
from statewise.errors import StatewiseError
from statewise.expressions import parse
from statewise.machines.dot import from_dot
from statewise.machines.languages import regex as build_regex
from statewise.machines.machine_files import from_json, to_json
from statewise.models.pretrained import read_pretrained
from statewise.reading import parse_form, parse_json
from statewise.runs.record import parse_record
from statewise.store import read_records
from statewise.sweep.grid import read_grid
from statewise.tasks.word_files import read_word_file
from statewise.training.checkpoints import parse_tensors
from statewise.training.manifest import Manifest
from statewise.training.options import _read as read_config
from tests.golden.test_format1 import FILES
from tests.store.records import record_dict

DOT = 'digraph { q [label="q|x"]; r [label="r|y"]; q -> r [label="a"]; r -> q [label=<b<br/>x>]; __start0 -> q; }'
TOML = 'name = "n"\n[[grid]]\ntask = ["parity", "cyclic(3)"]\nmodel = "full"\nseed = {first = 0, count = 2}\n'
# pieces of the languages that are read: what is likely to reach far into a reader
PIECES = [
    *'{}[]()<>"\',;:=|/\\*+?-@#\n\t \x00\x1b',
    '{"', '":', "[[", "]]", "->", "--", "digraph {", "label=", "subgraph", "/*", "//", "<td>", "<br/>", "&#",
    "null", "true", "NaN", "1e999", "-1", "0", "9" * 30, "\\ud800", "\\u0000", "\ufeff", "é", "\u202e",
    "parity", "cyclic(", "regex(", "{2,3}", "word", "label", "format", "states", "delta", "[[grid]]", "__start0 -> q0",
]  # fmt: skip


def mutated(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of inputs: seeds with pieces put in, taken out, repeated or flipped, and pieces alone."""
    piece = st.sampled_from([piece.encode() for piece in PIECES]) | st.binary(max_size=8)
    cut = st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.lists(piece, max_size=4), st.integers(1, 40))

    def mutate(seed: bytes, cuts: list[tuple[float, float, list[bytes], int]]) -> bytes:
        for start, share, pieces, times in cuts:
            at = int(start * len(seed))
            seed = seed[:at] + b"".join(pieces) * times + seed[at + int(share * len(seed)) :]
        return seed

    made = st.builds(mutate, st.sampled_from(seeds), st.lists(cut, min_size=1, max_size=4))
    return made | st.lists(piece, max_size=60).map(b"".join)


def text_of(content: bytes) -> str:
    return content.decode(errors="replace")


def by_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Return a reader of bytes that are put into a file first."""

    def reader(content: bytes, folder: Path) -> object:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return reader


def read_network(content: bytes, folder: Path) -> object:
    """Read a network's directory whose config is this; its manifest fits."""
    from tests.runs.test_crafted_directories import seal

    place = folder / "net"
    if not place.exists():
        sw.compile("parity", out=place)
    (place / "network.json").write_bytes(content)
    seal(place)
    return sw.load(place)


def read_certificate(content: bytes, folder: Path) -> object:
    place = folder / "compiled"
    if not place.exists():
        shutil.copytree(FILES / "compiled", place)
    (folder / "c.cert").write_bytes(content)
    return sw.check(folder / "c.cert", place)


TENSORS = FILES / "compiled" / "step-0-0" / "tensors.safetensors"
SAVED = b'{"format": 1, "sha256": {}}'
JSON = [to_json(sw.machine("cyclic(3)")).encode(), json.dumps(record_dict()).encode(), b'{"a": [1, {"b": "c"}]}']
WORDS = [
    b'{"word": ["a", "b"], "label": "x"}\n{"word": "ab", "label": 1}\n',
    b"word,label\na b,x\nb a,y\n",
    b"input,target\na b,x y\n",
]
NETWORK = {"origin": "compiled", "model": "diagonal", "hidden": 1, "facts": {"a": 1}}
CERTIFICATE = {
    "format": "statewise certificate 1",
    "weights": "0" * 64,
    "level": "diagonal",
    "machine": {"delta": [[0, 1], [1, 0]], "outputs": [0, 1], "start": 0},
    "language": {"shortest": 0, "legal": [[1, 1], [1, 1]]},
    "length": 1,
    "witness": {"method": "orbit", "sets": [], "entries": [[0, 0, 0]], "start": [1, 1], "arrows": []},
    "statement": "s",
}
READERS: dict[str, tuple[Callable[[bytes, Path], object], list[bytes]]] = {
    "json": (lambda content, _: parse_json(content), JSON),
    "machine": (lambda content, _: from_json(content), JSON[:1]),
    "dot": (lambda content, _: from_dot(text_of(content)), [DOT.encode(), b'digraph { 0 -> 1 [label="a/x"]; }']),
    "record": (lambda content, _: parse_record(content), JSON[1:2]),
    "manifest": (lambda content, _: parse_form(Manifest, content), [b'{"folder": "step-1-0", "sha256": {}}']),
    "records": (by_file("r.jsonl", lambda file: list(read_records(file))), [JSON[1] + b"\n" + JSON[1]]),
    "packed records": (by_file("r.jsonl.gz", lambda file: list(read_records(file))), [gzip.compress(JSON[1])]),
    "words": (by_file("words", read_word_file), WORDS),
    "words as JSON": (by_file("words.jsonl", read_word_file), WORDS[:1]),
    "words as CSV": (by_file("words.csv", read_word_file), WORDS[1:]),
    "grid": (by_file("g.toml", read_grid), [TOML.encode()]),
    "config": (by_file("c.toml", read_config), [b'task = "parity"\nmodel = "full"\nsteps = 5\n']),
    "tensors": (lambda content, _: parse_tensors(content), [TENSORS.read_bytes()]),
    "pretrained": (by_file("manifest.json", lambda file: read_pretrained(file.parent)), [SAVED]),
    "network": (read_network, [json.dumps(NETWORK).encode()]),
    "certificate": (read_certificate, [json.dumps(CERTIFICATE).encode()]),
    "expression": (lambda content, _: parse(text_of(content)), [b"cyclic(4)*cyclic(6)", b'read("x", kind=dfa)']),
    "pattern": (lambda content, _: build_regex(text_of(content)[:60]), [b"(ab)*", b"a{2,3}[b-d]|.?"]),
}  # fmt: skip


def attempt(name: str, content: bytes, folder: Path) -> None:
    """Read: what comes is a value, or an error of our own with one printable sentence."""
    read, _ = READERS[name]
    try:
        read(content, folder)
    except StatewiseError as error:
        assert 0 < len(str(error)) < 2_000
        assert error.exit_code in (1, 2)


def fuzz(name: str, folder: Path, examples: int) -> None:
    @settings(
        max_examples=examples, database=None, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True
    )
    @given(mutated(READERS[name][1]))
    def every(content: bytes) -> None:
        attempt(name, content, folder)

    every()


@pytest.mark.parametrize("name", READERS)
def test_readers_answer_or_refuse(name, tmp_path):
    fuzz(name, tmp_path, 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_answer_or_refuse_20_000_inputs(name, tmp_path):
    fuzz(name, tmp_path, 20_000)


@pytest.mark.parametrize("name", READERS)
def test_readers_take_their_seeds_and_refuse_nothing_but_bytes(name, tmp_path):
    for content in (b"", b"\x00" * 100, b"\xff\xfe" * 50, b"[" * 50_000, b"{" * 50_000, b'"' * 1001, b"(" * 9_000):
        attempt(name, content, tmp_path)
