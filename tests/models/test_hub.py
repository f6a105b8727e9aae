"""Networks on a hub: pushed as a directory, read back from a repository; nothing leaves this machine."""

import importlib
import json
import shutil
import subprocess
import sys

import pytest
import torch

from statewise import BilinearRNN, StateTracker
from statewise.errors import PretrainedError
from tests import needs


@pytest.fixture
def hub():
    needs.package("huggingface_hub", "huggingface_hub")
    return importlib.import_module("statewise.models.hub")


@pytest.fixture
def repository(hub, tmp_path, monkeypatch):
    """A hub of one directory: what is uploaded is what is downloaded."""
    stored, asked = tmp_path / "stored", []

    class Api:
        def __init__(self, **_):
            pass

        def create_repo(self, repo_id, **_):
            return type("Repository", (), {"repo_id": repo_id})

        def upload_folder(self, repo_id, folder_path, **_):
            asked.append(repo_id)
            shutil.copytree(folder_path, stored)
            return "pushed"

    def download(repo_id, **options):
        asked.append((repo_id, options["revision"]))
        return str(stored)

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", lambda filename, **_: str(stored / filename))
    monkeypatch.setattr(hub, "snapshot_download", download)
    return stored, asked


def test_a_layer_goes_to_a_repository_and_comes_back(hub, repository):
    stored, asked = repository
    layer = hub.HubBilinearRNN(3, 4, "block(2)", num_layers=2).eval()
    assert layer.push_to_hub("somebody/layer") == "pushed"
    again = hub.HubBilinearRNN.from_pretrained("somebody/layer", revision="first")
    assert asked == ["somebody/layer", ("somebody/layer", "first")]
    x = torch.ones(1, 5, 3)
    assert torch.equal(again(x)[0], layer(x)[0])
    # the plain class reads the same files, and the card names the library
    assert torch.equal(BilinearRNN.from_pretrained(stored)(x)[0], layer(x)[0])
    assert "library_name: statewise" in (stored / "README.md").read_text()


def test_directories_of_either_class_are_the_same(hub, tmp_path):
    plain = StateTracker(2, 3, 4, "full")
    plain.save_pretrained(tmp_path / "plain")
    on_hub = hub.HubTracker.from_pretrained(str(tmp_path / "plain"))
    on_hub.save_pretrained(tmp_path / "hub")
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("plain", "hub")]
    assert configs[0] == configs[1]
    with pytest.raises(PretrainedError, match="holds a StateTracker, not a BilinearRNN"):
        hub.HubBilinearRNN.from_pretrained(str(tmp_path / "plain"))


def test_without_the_package_one_sentence_names_the_extra():
    program = """
import sys
sys.modules["huggingface_hub"] = None
import statewise
try:
    import statewise.models.hub
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "ToolMissingError huggingface_hub is not installed; pip install 'statewise[hub]'" in done.stdout, done.stderr
