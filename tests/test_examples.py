"""Examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script, tmp_path):
    # a system that is learned reads words
    words = "coin push\n"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, input=words, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
