"""Programs that pip cannot install: without one its tests are left out, but in CI, which installs it, they fail."""

import os
import shutil
from typing import NoReturn

import pytest


def program(name: str, package: str) -> str:
    """Gives the path of a program, or leaves the test out with the package that has it."""
    found = shutil.which(name)
    if found is None:
        absent(f"needs the program {name}; install the package {package}")
    return found


def absent(reason: str) -> NoReturn:
    """Leaves the test out; where everything should be installed, fails it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, as CI does")
    pytest.skip(reason)
