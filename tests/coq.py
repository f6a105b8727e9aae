"""Coq, as a person runs it on a file."""

import subprocess
from pathlib import Path

from tests.command import PATIENCE
from tests.needs import program

CLOSED = "Closed under the global context"


def coqc(text: str, folder: Path) -> subprocess.CompletedProcess:
    """Compile a text in an empty folder, without anything of this project in reach."""
    compiler = program("coqc", "coq")
    file = folder / "verdict.v"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([compiler, file.name], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    # a failure is one of the proof, never one of the installation, or of how the file is written
    assert done.returncode == 0 or 'File "./verdict.v", line' in done.stderr, done.stderr
    assert "Syntax error" not in done.stderr, done.stderr
    return done


def proves(text: str, folder: Path) -> bool:
    """Return whether Coq accepts a text, and without any assumption."""
    done = coqc(text, folder)
    return done.returncode == 0 and done.stdout.strip() == CLOSED
