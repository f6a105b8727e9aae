"""Examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

EXAMPLES = Path(__file__).parents[1] / "examples"
# what an example needs besides statewise: the module, and its name for pip
PACKAGES = {
    "lightning_module": [("pytorch_lightning", "pytorch-lightning")],
    "hf_trainer": [("transformers", "transformers"), ("accelerate", "accelerate")],
}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script, tmp_path):
    for module, name in PACKAGES.get(script.stem, []):
        needs.package(module, name)
    # a system that is learned reads words
    words = "coin push\n"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, input=words, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("notebook_*.py")), ids=lambda path: path.stem)
def test_a_notebook_is_cells_of_text_and_code(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
    for cell in text.split("# %% [markdown]\n")[1:]:
        written = cell.split("# %%\n")[0].strip().splitlines()
        assert all(line.startswith("#") for line in written), written
