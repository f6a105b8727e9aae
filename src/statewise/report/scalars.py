"""What looks saw, as TensorBoard reads it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from statewise.errors import ToolMissingError


class Scalars:
    """Writes losses and scores into a folder of TensorBoard events; taking a run up writes on.

    Args:
        folder: where the events go.
        lengths: the lengths at which a look is taken.
    """

    def __init__(self, folder: Path, lengths: Sequence[int]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ToolMissingError(
                "tensorboard is not installed; install statewise[tensorboard], or leave --tensorboard out"
            ) from None
        self._lengths = tuple(lengths)
        # the folder is made with the first look, once the run's directory stands
        self._open = partial(SummaryWriter, str(folder))
        self._writer: Any = None

    def __enter__(self) -> "Scalars":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, look: Any, steps: int) -> None:
        """Writes what one look saw."""
        self._writer = self._writer or self._open()
        self._writer.add_scalar("loss/train", look.loss, look.step)
        if look.validation is not None:
            self._writer.add_scalar("loss/validation", look.validation, look.step)
        for length, score in zip(self._lengths, look.scores, strict=True):
            self._writer.add_scalar(f"score/length {length}", score, look.step)
        self._writer.flush()
