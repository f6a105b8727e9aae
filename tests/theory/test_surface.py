"""The public names of the theory: each is itself, whatever was imported before, and torch comes only when needed."""

import importlib
import pkgutil
import subprocess
import sys
import types

import pytest

import statewise.theory
import statewise.theory.certify


@pytest.mark.parametrize("package", [statewise.theory, statewise.theory.certify])
def test_public_names_are_no_modules_even_if_every_module_is_imported(package):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        assert name in dir(package)
        assert not isinstance(getattr(package, name), types.ModuleType), name


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'certified'"):
        _ = statewise.theory.certified


@pytest.mark.timeout(600)
def test_the_package_and_its_algebra_come_without_torch():
    asked = (
        "import sys, statewise.theory; from statewise.theory import classify, robustness, learn;"
        "assert 'torch' not in sys.modules; from statewise.theory import network_of; assert 'torch' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
