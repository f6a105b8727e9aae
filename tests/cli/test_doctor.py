"""`statewise doctor`: one page about this machine."""

import json
import os
import subprocess
import sys
from importlib import metadata

import statewise as sw
from tests.command import statewise


def test_it_names_versions_kernels_and_extras():
    found = json.loads(statewise("doctor", "--json").stdout)
    assert found["versions"]["statewise"] == sw.__version__
    assert found["versions"]["torch"].startswith("2.")
    assert found["backend"] in ("native", "torch")
    assert found["backend_reason"]
    assert found["extras"]["certify"] is True


def test_it_says_when_torch_was_asked_for():
    environment = os.environ | {"STATEWISE_BACKEND": "torch"}
    command = [sys.executable, "-m", "statewise", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert "torch: STATEWISE_BACKEND asks for it" in done.stdout
    assert "STATEWISE_BACKEND=torch" in done.stdout


def test_it_shows_where_a_cluster_is_and_no_secret():
    environment = os.environ | {"RAY_ADDRESS": "host:6379", "RAY_AUTH_TOKEN": "hidden-token", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "statewise", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert "RAY_ADDRESS=host:6379" in done.stdout
    assert "hidden-token" not in done.stdout
    assert f"python-flint {metadata.version('python-flint')}" in done.stdout
