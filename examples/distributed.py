"""BilinearRNN under DistributedDataParallel: two processes, each with half of a batch, and the gradients of one."""

import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from statewise import BilinearRNN

PROCESSES = 2


def build() -> BilinearRNN:
    """Return the same layer in each process."""
    return BilinearRNN(
        4, 16, transition="block(2)", num_layers=2, norm=True, generator=torch.Generator().manual_seed(0)
    )


def whole_batch() -> Tensor:
    return torch.randn(8, 30, 4, generator=torch.Generator().manual_seed(1))


def gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    module(x)[0].square().mean().backward()
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def work(rank: int, port: int) -> None:
    """Take one half of the batch; gradients are averaged over processes while they are computed."""
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    shared = gradients(DistributedDataParallel(build()), whole_batch().chunk(PROCESSES)[rank])
    alone = gradients(build(), whole_batch())
    for ours, theirs in zip(shared, alone, strict=True):
        torch.testing.assert_close(ours, theirs)
    if rank == 0:
        difference = max(float((ours - theirs).abs().max()) for ours, theirs in zip(shared, alone, strict=True))
        print(f"gradients of {len(shared)} parameters in {PROCESSES} processes: those of one, up to {difference:.0e}")
    dist.destroy_process_group()


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, args=(port,), nprocs=PROCESSES)


if __name__ == "__main__":
    main()
