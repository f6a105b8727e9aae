"""Losses and scores during training, as TensorBoard reads them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from statewise.errors import ToolMissingError
from statewise.training.metrics import Metrics


class Scalars:
    """A folder of TensorBoard events with losses and scores; a resumed run appends to it.

    Args:
        folder: where the events go.
        lengths: at which a run is evaluated during training.
    """

    def __init__(self, folder: Path, lengths: Sequence[int]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ToolMissingError(
                "tensorboard is not installed; install statewise[tensorboard], or leave --tensorboard out"
            ) from None
        self._lengths = tuple(lengths)
        # the folder is made with the first evaluation, once the run's directory stands
        self._open = partial(SummaryWriter, str(folder))
        self._writer: Any = None

    def __enter__(self) -> "Scalars":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, metrics: Metrics, steps: int) -> None:
        """Write what one evaluation measured."""
        self._writer = self._writer or self._open()
        self._writer.add_scalar("loss/train", metrics.loss, metrics.step)
        if metrics.validation is not None:
            self._writer.add_scalar("loss/validation", metrics.validation, metrics.step)
        for length, score in zip(self._lengths, metrics.scores, strict=True):
            self._writer.add_scalar(f"score/length {length}", score, metrics.step)
        self._writer.flush()
