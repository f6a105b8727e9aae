"""Examples run as they stand, and the README's commands are commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import statewise

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script):
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_readme_shows_what_the_demo_prints():
    done = statewise("demo")
    readme = (ROOT / "README.md").read_text()
    # scores and times depend on the machine; what was done does not
    for line in done.stdout.splitlines()[:3]:
        assert line in readme


def test_readme_commands_name_real_machines():
    from statewise.machines import machine

    commands = re.findall(r"^\s+\$ (statewise machine .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        expression = shlex.split(command)[2]
        if not expression.endswith(".dot"):
            machine(expression)


def test_recipes_page_shows_the_records():
    sys.path.insert(0, str(ROOT / "docs"))
    import make_recipes

    text = make_recipes.PAGE.read_text()
    assert make_recipes.page(text) == text


def test_the_page_of_performance_holds_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make_performance

    text = make_performance.PAGE.read_text()
    assert make_performance.page(text) == text
