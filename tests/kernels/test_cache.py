"""The cache of compiled kernels: what does not fit is never loaded, and is built anew."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statewise.kernels import find_compiler
from tests import needs

PROGRAM = """
from statewise.kernels import kernels
found = kernels()
print(found.library is not None, found.file, found.reason, sep="|")
"""
# a library that fits may be copied instead of being built by every test
STAND_IN = "int full_forward_float(void) { return 0; }"


def load(folder: Path | None, **environment: str) -> tuple[bool, str, str]:
    """Load the kernels in a process of its own, and return whether there are any, from where, and why."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("STATEWISE_")} | environment
    if folder is not None:
        given["STATEWISE_CACHE"] = str(folder)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=given, timeout=600)
    assert done.returncode == 0, done.stderr
    there, file, reason = done.stdout.strip().split("|")
    return there == "True", file, reason


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """A compiler that is fast: it writes a small library whatever it is asked to compile, and counts its calls."""
    real = find_compiler()
    if real is None:
        needs.absent("needs a C++ compiler; install the package g++")
    folder = tmp_path_factory.mktemp("compiler")
    (folder / "small.c").write_text(STAND_IN)
    script = folder / "c++"
    script.write_text(
        "#!/bin/sh\n"
        f'echo called >> "{folder}/calls"\n'
        'while [ "$1" != "-o" ]; do shift; done\n'
        f'exec "{real}" -x c -shared -fPIC -o "$2" "{folder}/small.c"\n'
    )
    script.chmod(0o755)
    return script


def calls(compiler: Path) -> int:
    """Return how often the compiler was called."""
    log = compiler.with_name("calls")
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def built(tmp_path, compiler):
    """A cache with a library in it."""
    folder = tmp_path / "cache"
    there, file, reason = load(folder, CXX=str(compiler))
    assert there
    assert reason.startswith("built now")
    return Path(file)


def test_a_library_that_fits_is_loaded_and_not_built_again(built, compiler):
    before = calls(compiler)
    there, file, reason = load(built.parent, CXX=str(compiler))
    assert (there, file, reason) == (True, str(built), "built before, and unchanged since")
    assert calls(compiler) == before


def test_the_cache_is_the_users_own(built):
    assert built.parent.stat().st_mode & 0o777 == 0o700
    assert built.stat().st_mode & 0o022 == 0
    # nothing is left of what was written aside
    assert {file.suffix for file in built.parent.iterdir()} == {".so", ".sha256"}


@pytest.mark.parametrize(
    "damage", ["truncated", "junk", "flipped", "empty", "no hash", "junk hash", "link", "writable"]
)
def test_a_library_that_does_not_fit_is_built_anew(built, compiler, damage, tmp_path):
    content, hashed = built.read_bytes(), built.with_suffix(".sha256")
    match damage:
        case "truncated":
            built.write_bytes(content[: len(content) // 2])
        case "junk":
            built.write_bytes(b"no library")
        case "flipped":
            built.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "empty":
            built.write_bytes(b"")
        case "no hash":
            hashed.unlink()
        case "junk hash":
            hashed.write_bytes(b"\xff\xfe")
        case "link":
            elsewhere = tmp_path / "elsewhere.so"
            built.rename(elsewhere)
            built.symlink_to(elsewhere)
        case "writable":
            built.chmod(0o777)
    before = calls(compiler)
    there, file, reason = load(built.parent, CXX=str(compiler))
    assert there
    assert file == str(built)
    assert reason.startswith("built now")
    assert calls(compiler) > before


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_to_is_not_used(built, compiler, mode):
    built.parent.chmod(mode)
    there, _, reason = load(built.parent, CXX=str(compiler))
    assert not there
    assert "others may write to it" in reason


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, which can give files away")
def test_another_users_folder_and_file_are_not_used(built, compiler):
    os.chown(built, 12_345, 12_345)
    there, _, reason = load(built.parent, CXX=str(compiler))
    assert there
    assert reason.startswith("built now")
    os.chown(built.parent, 12_345, 12_345)
    there, _, reason = load(built.parent, CXX=str(compiler))
    assert not there
    assert "belongs to another user" in reason


def test_no_home_directory_is_needed(tmp_path, compiler):
    there, file, _ = load(None, CXX=str(compiler), HOME="/proc/none", XDG_CACHE_HOME="", TMPDIR=str(tmp_path))
    assert there
    assert Path(file).parent.parent == tmp_path


def test_a_compiler_that_fails_is_named(tmp_path):
    there, _, reason = load(tmp_path / "cache", CXX="/bin/false", PATH="/nowhere")
    assert not there
    assert "/bin/false failed" in reason
