"""The layer inside torch.compile and torch.export, and a million steps, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs


def run(*arguments, seconds=600):
    script = Path(__file__).with_name("programs.py")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "agrees"


def test_the_layer_compiles_as_one_graph():
    run("compile", "aot_eager")


def test_the_layer_compiles_to_machine_code():
    needs.program("g++", "g++")
    run("compile", "inductor")


def test_trackers_compile_as_one_graph():
    run("tracker", "aot_eager")


def test_one_compilation_serves_all_lengths():
    run("lengths")


def test_the_layer_exports():
    run("export")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_steps_neither_overflow_nor_underflow():
    run("million", seconds=1700)
