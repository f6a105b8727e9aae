"""Files are written whole or not at all, a full disk is one sentence, and what a kill left goes with the next start."""

import errno
import os
import resource
import signal
import stat
import sys
from pathlib import Path

import pytest

from statewise.errors import FileError
from statewise.files import (
    remove_strays_in,
    temporary_folder,
    whole_file,
    whole_folder,
    write_bytes_whole,
    write_whole,
)
from tests.command import STATEWISE, started, statewise


def _draw(file):
    from statewise.report.figure import figure_of

    with figure_of(file) as axes:
        axes.plot([0, 1], [0, 1])


def _write_table(file):
    from statewise.report.table_files import write_csv

    write_csv(file, [{"a": 1, "b": None}])


WRITERS = {
    "text.txt": lambda file: write_whole(file, "new\n" * 10_000),
    "table.csv": _write_table,
    "figure.png": _draw,
    "figure.svg": _draw,
    "network.onnx": lambda file: write_bytes_whole(file, b"\0" * 100_000),
}


def _full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(name, tmp_path, monkeypatch):
    file = tmp_path / name
    file.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        with pytest.raises(FileError, match="no space left on device; the file before stays; choose another place"):
            WRITERS[name](file)
    assert (file.read_text(), [p.name for p in tmp_path.iterdir()]) == ("old", [name])
    WRITERS[name](file)
    assert file.read_bytes() != b"old"
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["text.txt", "table.csv"])
def test_a_full_device_is_one_sentence(name, tmp_path):
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(FileError, match='cannot write "/dev/full": no space left on device'):
        WRITERS[name](tmp_path / name)


def test_a_link_is_followed_and_the_rights_of_a_file_stay(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")
    assert (link.is_symlink(), file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (True, "new", 0o640)


def test_an_error_of_the_writer_leaves_the_old_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(TypeError, match="bytes-like"), whole_file(file) as stream:
        stream.writelines([b"half", "text"])
    assert (file.read_text(), len(list(tmp_path.iterdir()))) == ("old", 1)


def test_a_name_as_long_as_file_systems_take_is_written(tmp_path):
    for name in ("n" * 255, "é" * 127, "[*]?"):
        write_whole(tmp_path / name, "text")
        write_whole(tmp_path / name, "again")
    assert {file.read_text() for file in tmp_path.iterdir()} == {"again"}


_HALF = """
import sys, time
from pathlib import Path
from statewise import files
with getattr(files, sys.argv[1])(*[Path(given) for given in sys.argv[2:]]):
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(("kind", "name"), [("whole_file", "some.csv"), ("whole_folder", "run [1]")])
def test_what_a_kill_left_goes_with_the_next_write_and_what_is_being_written_stays(kind, name, tmp_path):
    place = tmp_path / name
    with started([sys.executable, "-c", _HALF, kind, place]) as process:
        assert process.stdout.readline() == "open\n"
        (left,) = tmp_path.iterdir()
        remove_strays_in(tmp_path)
        assert left.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert left.exists()
    if kind == "whole_file":
        write_whole(place, "text")
    else:
        with whole_folder(place) as aside:
            (aside / "file").write_text("text")
    assert list(tmp_path.iterdir()) == [place]


def test_a_temporary_folder_that_a_kill_left_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = {"env": os.environ | {"TMPDIR": str(tmp_path)}}
    with started([sys.executable, "-c", _HALF, "temporary_folder"], **given) as process:
        assert process.stdout.readline() == "open\n"
        (left,) = tmp_path.iterdir()
        with temporary_folder() as mine:
            assert set(tmp_path.iterdir()) == {left, mine}
            assert stat.S_IMODE(mine.stat().st_mode) == 0o700
        process.send_signal(signal.SIGKILL)
        process.wait()
    with temporary_folder() as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_no_strays(tmp_path):
    for name in (".notes.aside", ".notes.123456789abc.aside.bak", "notes.123456789abc.aside"):
        (tmp_path / name).write_text("mine")
    remove_strays_in(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_command_survives_a_disk_that_takes_no_more(tmp_path):
    """A limit on the size of files stands for the disk."""
    file = tmp_path / "machine.json"
    assert statewise("machine", "parity", "--out", file).returncode == 0
    before = file.read_bytes()
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))}
    done = statewise("machine", "symmetric(3)", "--out", file, **limit)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("file too large; the file before stays; choose another place\n")
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (before, [file])


@pytest.mark.parametrize(
    "arguments", [["machine", "parity"], ["machine", "parity", "--json"], ["models"], ["--help"], ["--version"]]
)
def test_a_full_standard_output_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        done = _ended(arguments, stdout=full)
    said = "cannot write to standard output: no space left on device; what the command wrote into files stays"
    assert done == (1, f"statewise: {said}\n")


def test_a_closed_standard_output_stops_nothing(tmp_path):
    code, said = _ended(["sample", "parity", "--count", 3, "--length", 2, "--out", tmp_path / "w.csv"], close=1)
    assert (code, said) == (0, "")
    assert len((tmp_path / "w.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("close", [True, False])
def test_messages_that_nobody_takes_cost_no_result(close):
    with Path("/dev/full").open("w") as full:
        given = {"preexec_fn": lambda: os.close(2)} if close else {"stderr": full}
        with started([*STATEWISE, "machine", "parity", "--json"], **given) as process:
            assert '"states": 2' in process.stdout.read()
            assert process.wait() == 0
        with started([*STATEWISE, "machine", "no such machine"], **given) as process:
            assert process.wait() == 2


def _ended(arguments, close=None, **given):
    given |= {} if close is None else {"preexec_fn": lambda: os.close(close)}
    with started([*STATEWISE, *arguments], **given) as process:
        said = process.stderr.read()
        return process.wait(), said
