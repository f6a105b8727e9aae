"""Where the compiled kernels are kept, and when a file there may be loaded.

A library is code that runs in this process. It is loaded only if folder and file belong to this user, nobody else may
write to them, and the content has the hash that was written beside it when it was built. A file that does not fit is
built anew; it is never loaded, since a truncated library ends the process.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from statewise.files import folder_aside

_SOURCES = Path(__file__).with_name("cpp")
_FLAGS = ["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
_COMPILE_SECONDS = 120
_LOG = logging.getLogger(__name__)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Kernels:
    """The compiled kernels, or why there are none.

    Args:
        library: the loaded library; None where there is none.
        file: where it lies.
        reason: why it is used, or why it is not.
    """

    library: Any
    file: Path | None
    reason: str


@cache
def kernels() -> Kernels:
    """Load the kernels, building them first if the cache has none that fits."""
    key = _key()
    compiler = find_compiler()
    reasons = []
    for folder in cache_folders():
        file = folder / f"kernels-{key}.so"
        try:
            _make_private(folder)
            if not _fits(file):
                if compiler is None:
                    reasons.append("no C++ compiler was found")
                    continue
                _LOG.info("compiling the kernels for this processor, once: about half a minute")
                _build(compiler, file)
                return Kernels(ctypes.CDLL(str(file)), file, f"built now with {compiler}")
            return Kernels(ctypes.CDLL(str(file)), file, "built before, and unchanged since")
        except (OSError, subprocess.SubprocessError) as error:
            reasons.append(f"{folder}: {error}")
    return Kernels(None, None, "; ".join(dict.fromkeys(reasons)))


def find_compiler() -> str | None:
    """Return the C++ compiler that would be used; None where there is none."""
    names = filter(None, [os.environ.get("CXX"), "c++", "g++", "clang++"])
    return next(filter(None, map(shutil.which, names)), None)


def cache_folders() -> list[Path]:
    """Return the folders to try: the one that STATEWISE_CACHE names, or the user's cache and then a temporary one."""
    chosen = os.environ.get("STATEWISE_CACHE")
    if chosen:
        return [Path(chosen)]
    folders = []
    if os.environ.get("XDG_CACHE_HOME"):
        folders.append(Path(os.environ["XDG_CACHE_HOME"]) / "statewise")
    else:
        # there may be no home directory
        with suppress(RuntimeError):
            folders.append(Path.home() / ".cache" / "statewise")
    return [*folders, Path(tempfile.gettempdir()) / f"statewise-{_user()}"]


def _make_private(folder: Path) -> None:
    """Make a folder that this user alone may write to, and refuse one that is not so."""
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise OSError("it is a link")
    found = folder.stat()
    if found.st_uid != _user():
        raise OSError("it belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        raise OSError("others may write to it")


def _fits(file: Path) -> bool:
    """Return whether a library is whole, this user's, and what was built."""
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != _user() or found.st_mode & _OTHERS_WRITE:
            return False
        return hashlib.sha256(file.read_bytes()).hexdigest() == _hash_file(file).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False


def _hash_file(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _build(compiler: str, file: Path) -> None:
    with folder_aside(file) as aside:
        built = aside / "kernels.so"
        for flags in (["-march=native"], []):
            command = [compiler, *_FLAGS, *flags, "-o", str(built), str(_SOURCES / "kernels.cpp")]
            done = subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS, check=False)
            if done.returncode == 0:
                break
        else:
            raise OSError(f"{compiler} failed")
        built.chmod(0o700)
        described = aside / "sha256"
        described.write_text(hashlib.sha256(built.read_bytes()).hexdigest() + "\n")
        for made in (built, described):
            _sync(made)
        # the hash comes first: a library without its hash is never loaded
        _hash_file(file).unlink(missing_ok=True)
        os.replace(built, file)
        os.replace(described, _hash_file(file))
        _sync(file.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _key() -> str:
    sources = b"".join(file.read_bytes() for file in sorted(_SOURCES.iterdir()) if file.suffix in (".cpp", ".hpp"))
    return hashlib.sha256(sources + repr((_FLAGS, _processor())).encode()).hexdigest()[:16]


def _processor() -> str:
    """Return a name of the processor, so that a cache on a shared disk never mixes the code of two machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        described = "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    except OSError:
        described = platform.processor()
    return f"{platform.system()} {platform.machine()} {described}"
