"""Programs of torch.export: the step of a network, and the whole sequence as a scan of it, with free batch and length.

A recurrence that is written as a Python loop would be unrolled for one length. Here the step is exported first, and a
`scan` over time is exported around it.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram

from statewise.errors import NetworkError, StatewiseError, shorten
from statewise.export.steps import Step
from statewise.files import write_bytes_whole

# sizes at export: none is 0 or 1, which torch takes for constants
_BATCH, _TIME = 3, 4


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch says of its own inside away from the user: a failure becomes one sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def step_program(step: Step, name: str) -> ExportedProgram:
    """Export a step for any batch.

    Args:
        step: of a network.
        name: of the network, for messages.
    """
    batch = Dim("batch")
    token = torch.zeros(_BATCH, dtype=torch.int64)
    shapes = {"token": {0: batch}, "state": tuple({axis: batch} for axis in step.axes)}
    with _told(name, "its step is no program of fixed shapes"):
        program = torch.export.export(step, (token, *step.begin(_BATCH)), dynamic_shapes=shapes, strict=False)
        return program.run_decompositions(_decompositions())


def sequence_program(step: Step, program: ExportedProgram, name: str) -> ExportedProgram:
    """Export the scan of a step over whole sequences: tokens [batch, time] to logits [batch, time, classes].

    Args:
        step: of a network.
        program: the same step, exported.
        name: of the network, for messages.
    """
    loop = _Loop(step, program.module())
    tokens = torch.zeros(_BATCH, _TIME, dtype=torch.int64)
    with _told(name, "its step cannot be repeated over time"):
        return torch.export.export(loop, (tokens,), dynamic_shapes={"tokens": {0: Dim("batch"), 1: Dim("time")}})


def forward_program(model: nn.Module, name: str, longest: int | None) -> ExportedProgram:
    """Export the forward of a model without a state, such as a Transformer."""
    tokens = torch.zeros(_BATCH, _TIME, dtype=torch.int64)
    time = Dim("time") if longest is None else Dim("time", max=longest)
    with _told(name, "its forward fixes the length of sequences, or the batch"):
        program = torch.export.export(
            _Forward(model), (tokens,), dynamic_shapes={"tokens": {0: Dim("batch"), 1: time}}, strict=False
        )
        return program.run_decompositions(_decompositions())


class _Loop(nn.Module):
    def __init__(self, step: Step, program: nn.Module) -> None:
        super().__init__()
        self.first, self.program = step, program

    def forward(self, tokens: Tensor) -> Tensor:
        def once(state: list[Tensor], token: Tensor) -> tuple[list[Tensor], Tensor]:
            logits, *after = self.program(token, *state)
            # a loop's state keeps its layout in memory
            return [value.clone(memory_format=torch.contiguous_format) for value in after], logits.clone()

        _, logits = scan(once, list(self.first.begin(tokens.shape[0])), tokens.transpose(0, 1))
        return logits.transpose(0, 1)


class _Forward(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens)


def _decompositions() -> dict[Any, Any]:
    """Return torch's decompositions, and two of what loops of one step hold that other runtimes have no word for."""
    table = torch.export.default_decompositions()
    table[torch.ops.aten.empty_permuted.default] = _empty_permuted
    table[torch.ops.aten.linalg_solve_triangular.default] = _solve_unit_lower
    return table  # pyright: ignore[reportReturnType]


def _empty_permuted(size: Any, order: Any, dtype: Any = None, **place: Any) -> Tensor:
    return torch.zeros(size, dtype=dtype, device=place.get("device"))


def _solve_unit_lower(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Solve by forward substitution; of one token the matrix is 1 by 1."""
    if upper or not left or not unitriangular:
        return NotImplemented
    rows: list[Tensor] = []
    for i in range(matrix.shape[-1]):
        row = right[..., i, :]
        for j, earlier in enumerate(rows):
            row = row - matrix[..., i, j].unsqueeze(-1) * earlier
        rows.append(row)
    return torch.stack(rows, dim=-2)


@contextmanager
def _told(name: str, reason: str) -> Iterator[None]:
    """Turn whatever torch raises into one sentence."""
    try:
        with quiet():
            yield
    except StatewiseError:
        raise
    except Exception as error:
        # torch's first sentence is enough, and what follows is about its own settings
        what = shorten(re.split(r"[.!](\s|$)", f"{type(error).__name__}: {error}", maxsplit=1)[0], 120)
        raise NetworkError(
            f"torch.export does not take {name}: {reason} ({what}); export it --to safetensors, or its machine"
        ) from None


def save_program(program: ExportedProgram, file: Path) -> None:
    """Write a program as torch.export.save does, whole or not at all."""
    content = io.BytesIO()
    with quiet():
        torch.export.save(program, content)
    write_bytes_whole(file, content.getvalue())
