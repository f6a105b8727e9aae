"""CONTRIBUTING's steps are true: a toy level, added as they say, trains, is evaluated, and is tested by being there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEVEL = '''"""A toy level: diagonals of one number for all channels."""

from typing import final

import torch
from torch import Tensor, nn

from statewise.transitions.transition import Init, LinearTransition, check_sizes, input_power


@final
class Toy(LinearTransition):
    """A(x) = (w . x) I: one number for all channels. Parameters: D."""

    commutes = True
    norm_preserving = False
    positive = False
    composable = True
    stackable = True

    def __init__(
        self, input_size: int, hidden_size: int, init: Init = "features", generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        check_sizes("toy", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        drawn = torch.randn(input_size, generator=generator)
        drawn = drawn.sign() if init == "tokens" else drawn
        self.weight = nn.Parameter(drawn * input_power(init, input_size) ** -0.5)

    def coefficients(self, x: Tensor) -> Tensor:
        """Compute the number."""
        return (x @ self.weight).unsqueeze(-1)

    def act(self, coefficients: Tensor, h: Tensor) -> Tensor:
        """Scale the state."""
        return coefficients * h

    def dense(self, coefficients: Tensor) -> Tensor:
        """Write the number along the diagonal."""
        return coefficients.unsqueeze(-1) * torch.eye(self.hidden_size, dtype=coefficients.dtype)

    def compose(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Multiply the numbers."""
        return later * earlier

    @classmethod
    def from_dense(cls, weight: Tensor) -> "Toy":
        """Take the first entry of each matrix."""
        built = cls(weight.shape[2], weight.shape[0])
        built.weight = nn.Parameter(weight.detach()[0, 0].clone())
        return built
'''
ROW = """    Kind(
        name="toy",
        made_by="statewise.transitions.toy:Toy",
        label="toy",
        examples=("toy",),
        cost=0.003,
        recipe={"lr": 3e-3},
        matrix="one number",
        parameters="D",
        count=lambda h, d, a: d,
        tracks="parity",
    ),
    Kind(
        name="rnn","""


def test_a_level_is_a_file_and_a_row(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "golden"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src" / "statewise"
    (package / "transitions" / "toy.py").write_text(LEVEL)
    table = package / "models" / "table.py"
    text = table.read_text()
    assert text.count('    Kind(\n        name="rnn",') == 1
    table.write_text(text.replace('    Kind(\n        name="rnn",', ROW))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    program = (
        "import statewise as sw; assert 'src/statewise' in sw.__file__, sw.__file__\n"
        "run = sw.train('parity', 'toy', hidden=12, steps=60, out='run')\n"
        "print(sw.evaluate('run', lengths=[10, 100]))\n"
        "print(sw.compare(['parity'], ['toy', 'diagonal'], seeds=1, steps=40, lengths=[10]))\n"
        "from statewise.models import LEVELS; print(list(LEVELS))"
    )
    shown = run("-c", program)
    assert "toy" in shown
    assert "'positive', 'toy'" in shown
    # the conformance suites are derived from the table
    plain = ["-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "-q"]
    tested = run(*plain, "tests/laws/test_model_laws.py", "tests/laws/test_transition_laws.py", "-k", "toy", "--co")
    assert tested.count("[toy") >= 10
    run(*plain, "tests/laws/test_model_laws.py", "tests/laws/test_transition_laws.py", "tests/training", "-k", "toy")
