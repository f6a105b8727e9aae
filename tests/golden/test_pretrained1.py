"""Networks saved in format 1 are built again by every later version, and compute what they did."""

import json
from pathlib import Path

import pytest
import torch

from statewise.models import load_pretrained

FILES = Path(__file__).parent / "pretrained1"
EXPECTED = json.loads((FILES / "expected.json").read_text())


def test_every_directory_is_expected():
    assert sorted(EXPECTED["outputs"]) == sorted(file.name for file in FILES.iterdir() if file.is_dir())


@pytest.mark.parametrize("name", EXPECTED["outputs"])
def test_saved_networks_compute_what_they_did(name):
    assert json.loads((FILES / name / "manifest.json").read_text())["format"] == 1
    network = load_pretrained(FILES / name)
    with torch.no_grad():
        if name.startswith("tracker"):
            found = network(torch.tensor(EXPECTED["tokens"]))
        else:
            found, _ = network(torch.tensor(EXPECTED["inputs"]))
    expected = torch.tensor(EXPECTED["outputs"][name], dtype=torch.float64)
    assert torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-6)
