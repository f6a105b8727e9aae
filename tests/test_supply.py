"""What is installed and what may be written: pins with hashes, licences, lint rules against running what is read."""

import re
import shutil
import subprocess
import sys

import pytest

from tests import needs
from tests.command import ROOT

PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line and line[0] != "#"]
HASHED = [line for line in (ROOT / "constraints-hashed.txt").read_text().splitlines() if line[0] != "#"]


def test_every_pin_has_a_hash_of_the_same_version():
    assert [line.partition(" ")[0] for line in HASHED] == PINS
    assert all(re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in HASHED)


def test_ci_installs_what_has_a_hash_before_anything_else():
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps -r constraints-hashed.txt" in makefile
    assert makefile.index("--require-hashes") < makefile.index("--no-build-isolation")


def test_every_pinned_package_has_its_licence_listed():
    rows = [line.split("|") for line in (ROOT / "docs" / "licences.md").read_text().splitlines() if line[:2] == "| "]
    listed = {row[1].strip(): row[2].strip() for row in rows[1:]}
    assert listed.keys() - {"---"} == {line.partition("==")[0] for line in PINS}
    assert "not stated" not in listed.values()
    assert {name for name, licence in listed.items() if "LGPL" in licence} == {"frozendict", "python-flint"}


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("TID251", "import pickle"),
        ("TID251", "import torch\n\nheld = torch.load('x', weights_only=False)"),
        ("TID251", "import marshal"),
        ("S307", "held = eval('1')"),
        ("S102", "exec('1')"),
        ("S602", "import subprocess\n\nsubprocess.run('ls', shell=True, check=False)"),
        ("S605", "import os\n\nos.system('ls *')"),
        ("S608", "name = 'x'\nquery = f\"SELECT * FROM {name} WHERE a = 1\""),
    ],
)
def test_what_runs_what_it_reads_is_a_lint_error(rule, line):
    ruff = shutil.which("ruff") or shutil.which("ruff", path=str(ROOT / ".venv" / "bin"))
    ruff = ruff or shutil.which("ruff", path=sys.exec_prefix + "/bin")
    if ruff is None:
        needs.absent("needs ruff; install statewise[lint]")
    command = [
        ruff,
        "check",
        "--no-cache",
        "--output-format",
        "concise",
        "--stdin-filename",
        "src/statewise/new.py",
        "-",
    ]
    done = subprocess.run(command, input=f'"""A file."""\n\n{line}\n', capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    assert rule in done.stdout


def test_no_file_of_the_library_turns_these_rules_off():
    for file in (ROOT / "src").rglob("*.py"):
        marks = re.findall(r"# noqa: *([A-Z0-9, ]+)", file.read_text())
        assert not [mark for mark in marks if re.search(r"\bS\d|TID251", mark)], file
