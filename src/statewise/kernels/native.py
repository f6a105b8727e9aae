"""The compiled kernels: built on first use for this machine, kept in a cache, never required.

`cpp/` has no dependency but a C++ compiler; where there is none, or where tensors are not plain ones in memory
(under torch.compile, vmap, another device), the same computations run in torch. STATEWISE_BACKEND=torch turns the
kernels off, STATEWISE_CACHE is the directory that holds them.
"""

import ctypes
import os
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore[reportMissingImports]

from statewise.errors import TransitionError, unknown_name
from statewise.kernels.cache import kernels

Backend = Literal["native", "torch"]
BACKENDS: tuple[Backend, ...] = ("native", "torch")
_NAMES = {torch.float32: "float", torch.float64: "double"}
_TYPES = {"p": ctypes.c_void_p, "l": ctypes.c_long, "d": ctypes.c_double}
# the arguments of each kernel: pointers, integers, floating-point numbers
_SIGNATURES = {
    "full_forward": "pppp" + "llllll",
    "full_resume": "pppp" + "lllll",
    "full_backward": "pppppppp" + "llllll",
    "full_train": "pppppppppp" + "lllllllll",
    "small_blocks_forward": "ppppp" + "lllll",
    "small_blocks_backward": "pppppppp" + "lllll",
    "events_forward": "pppppp" + "llllll",
    "events_backward": "pppppppp" + "llllll",
    "rotations_forward": "ppp" + "lll",
    "rotations_backward": "pppppp" + "lll",
    "adam": "pppp" + "ll" + "pp" + "dddd",
}


def choose(forced: str | None, *tensors: Tensor) -> Backend:
    """Return what computes on these tensors: the kernels where they can, unless torch is asked for."""
    wanted = forced or os.environ.get("STATEWISE_BACKEND") or None
    if wanted is not None and wanted not in BACKENDS:
        raise unknown_name("backend", wanted, BACKENDS)
    if wanted == "torch" or not in_memory(*tensors) or len({tensor.dtype for tensor in tensors}) > 1:
        return "torch"
    if library() is not None:
        return "native"
    if wanted == "native":
        raise TransitionError(
            f"the kernels cannot be used here ({kernels().reason}); install a C++ compiler, or use the backend torch"
        )
    return "torch"


def in_memory(*tensors: Tensor) -> bool:
    """Return whether tensors are plain ones in memory: not traced, not transformed, not on another device."""
    return not torch.compiler.is_compiling() and all(map(_plain, tensors))


def call(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Call a kernel; tensors are passed as they lie in memory, so they must be contiguous."""
    pointers = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            # a kernel checks nothing: a wrong type would be read past its end
            assert argument.is_contiguous()
            assert argument.dtype in (dtype, torch.int64, torch.float64)
            argument = argument.data_ptr()
        pointers.append(argument)
    _function(name, dtype)(*pointers)


def doubles(values: list[float]) -> Any:
    """Return an array for a kernel."""
    return (ctypes.c_double * len(values))(*values)


@cache
def _function(name: str, dtype: torch.dtype) -> Any:
    loaded = library()
    assert loaded is not None
    function = getattr(loaded, f"{name}_{_NAMES[dtype]}")
    function.restype = None
    function.argtypes = [_TYPES[letter] for letter in _SIGNATURES[name]]
    return function


def library() -> Any:
    """Return the loaded kernels; None where there are none."""
    return kernels().library


def _plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.dtype in _NAMES
        and not is_functorch_wrapped_tensor(tensor)
    )
