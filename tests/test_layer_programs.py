"""The layer inside torch.compile and torch.export, in a process of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments):
    script = Path(__file__).with_name("programs.py")
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "agrees"


def test_the_layer_compiles_as_one_graph():
    run("compile", "aot_eager")


def test_the_layer_compiles_to_machine_code():
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler; install the package g++")
    run("compile", "inductor")


def test_the_layer_exports():
    run("export")
