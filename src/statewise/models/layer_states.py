"""The states of a layer: what is checked of them, and a guard against being taken for (h, c)."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.kernels import in_memory

# with two directions, layers are counted twice: forward, then backward, as in nn.LSTM
State = Float[Tensor, "layers batch hidden"]


class HiddenState(Tensor):
    """A last state that does not fall apart into two: nn.LSTM returns (h, c) in its place."""

    # results of any operation are plain tensors
    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    def __iter__(self) -> Any:
        """Refuse to be unpacked."""
        raise TypeError(
            "BilinearRNN returns one state, not (h, c); write output, h_n = rnn(x), and h_n.unbind() to split"
        )


def warn_of_scale(last: State, first: State) -> None:
    """Warn where a state in memory has left the range of its type in a product of matrices."""
    if not in_memory(last):
        return
    size, before = last.detach().abs().amax(dim=-1), first.detach().abs().amax(dim=-1)
    # an input that was NaN or inf is the caller's own; a first state that was 0 or subnormal too
    if bool(size.isinf().any()):
        happened = "overflowed"
    elif bool(((size < torch.finfo(size.dtype).tiny) & (before >= torch.finfo(size.dtype).tiny)).any()):
        happened = "vanished"
    else:
        return
    warnings.warn(
        f"a hidden state {happened}: a product of many matrices has no fixed scale; build it with normalise=True",
        UserWarning,
        stacklevel=3,
    )


def guard_state(state: Tensor) -> Tensor:
    """Return a state of two recurrences so that `h, c = state` is an error; any other cannot be mistaken for a pair."""
    if len(state) != 2 or torch.compiler.is_compiling() or not in_memory(state):
        return state
    return state.as_subclass(HiddenState)


def reverse_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each row along time, within its length; what lies behind that stays where it is."""
    if lengths is None:
        return x.flip(1)
    times = torch.arange(x.shape[1], device=x.device)
    places = torch.where(times < lengths.unsqueeze(1), lengths.unsqueeze(1) - 1 - times, times)
    return x.gather(1, places.unsqueeze(-1).expand_as(x))


def is_zero(state: Tensor) -> bool:
    """Return whether a state in memory is all zeros; one that cannot be looked at is not."""
    return in_memory(state) and state.numel() > 0 and not bool(state.detach().any())


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keep the dtype of the weights; the meta device knows of no other."""
    return nullcontext() if device == "meta" else torch.autocast(device_type=device, enabled=False)
