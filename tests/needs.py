"""Programs and packages: without one its tests are left out, but in CI, which installs it, they fail."""

import importlib.util
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


def package(module: str, name: str) -> None:
    """Leave the test out where a package is missing, with its name for pip."""
    if importlib.util.find_spec(module) is None:
        absent(f"needs the package {name}; install the extra test")


def absent(reason: str) -> NoReturn:
    """Leaves the test out; where everything should be installed, fails it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, as CI does")
    pytest.skip(reason)
