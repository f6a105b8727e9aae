"""The one reader of files of others: regular, bounded, and JSON of one meaning."""

import json
import os

import pytest
from pydantic import BaseModel

from statewise.errors import TooLargeError, UnreadableError
from statewise.reading import MAX_NESTING, parse_form, parse_json, read_bytes, read_text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": 2, "a": 3}', 'its key "a" occurs twice'),
        ('[{"a": {"b": 1, "b": 1}}]', 'its key "b" occurs twice'),
        ('"\\ud800"', "half of a pair of surrogates"),
        ('{"\\udfff": 1}', "half of a pair of surrogates"),
        ("[" * (MAX_NESTING + 2) + "]" * (MAX_NESTING + 2), "nests more than"),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "nests more than"),
        ("[" * 1_000_000, "nests more than"),
        ("{", "it is not JSON"),
        ("9" * 10_000, "it is not JSON"),
        (b"\xff", "it is not UTF-8 text"),
    ],
)
def test_json_of_no_or_of_two_meanings_is_refused(text, reason):
    with pytest.raises(UnreadableError, match=reason):
        parse_json(text)


@pytest.mark.parametrize("value", [None, True, 1.5, "\U0001f600", "é", {"a": [1, {"b": []}]}, [[]] * 3])
def test_other_json_is_read_as_it_is(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value
    assert parse_json(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value
    inner: object = value
    for _ in range(MAX_NESTING - 4):
        inner = [inner]
    assert parse_json(json.dumps(inner)) == inner


def test_only_regular_files_within_bounds_are_read(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bytes(file, 5) == b"12345"
    (tmp_path / "link").symlink_to(file)
    assert read_text(tmp_path / "link") == "12345"
    with pytest.raises(TooLargeError, match="5 bytes, and at most 4"):
        read_bytes(file, 4)
    with pytest.raises(UnreadableError, match="its hash differs"):
        read_bytes(file, 5, "0" * 64)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, reason in (
        ("pipe", "no regular file"),
        ("zero", "no regular file"),
        (".", "is a directory"),
        ("none", "no such file"),
        ("a\x00b", "null"),
    ):
        with pytest.raises(UnreadableError, match=reason):
            read_bytes(tmp_path / name)
    # a file that claims a size which it does not have on disk is refused before it is read
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(TooLargeError):
        read_bytes(tmp_path / "sparse")


def test_a_form_says_what_is_wrong_first():
    class Form(BaseModel):
        a: int
        b: list[int] = []

    assert parse_form(Form, '{"a": 1}') == Form(a=1)
    for text, reason in (('{"b": [1]}', "a is"), ('{"a": 1, "b": ["x"]}', "b.0 is 'x'"), ("[]", "it is")):
        with pytest.raises(UnreadableError, match=reason):
            parse_form(Form, text)
