"""Compiles and exports layers, and runs a million steps; a script, without the shape checks of the test process.

Usage: python programs.py compile BACKEND | tracker BACKEND | lengths | export | million
"""

import math
import sys
from collections.abc import Callable

import torch
from torch._dynamo.testing import CompileCounterWithBackend

from statewise import BilinearRNN, StateTracker
from statewise.recurrence import unroll_normalised
from statewise.transitions import Diagonal

LEVELS = ["full", "cp(4)", "block(2)", "rotation", "diagonal", "positive"]
OPTIONS = [{}, {"additive": "input"}, {"num_layers": 2, "norm": True, "residual": True}]


def check_compile(backend: str) -> None:
    """Compares outputs, states and gradients of a compiled layer with the eager one."""
    cases = [(spec, {}) for spec in LEVELS] + [("full", options) for options in OPTIONS[1:]]
    if backend == "inductor":
        cases = [("full", {}), ("rotation", {})]
    for spec, options in cases:
        torch._dynamo.reset()
        rnn = BilinearRNN(5, 6, transition=spec, dtype=torch.float64, **options)
        compiled = torch.compile(rnn, fullgraph=True, backend=backend)
        x, lengths = torch.randn(3, 4, 5, dtype=torch.float64), torch.tensor([4, 0, 2])
        for arguments in [(x,), (x, rnn.init_state(3).detach(), lengths)]:
            expected, given = rnn(*arguments), compiled(*arguments)
            torch.testing.assert_close(given, expected)
            wanted = [p for p in rnn.parameters() if p.requires_grad]
            loss = [sum(part.square().sum() for part in result) for result in (expected, given)]
            grads = [torch.autograd.grad(part, wanted, allow_unused=True) for part in loss]
            # sums in another order, some of which cancel
            torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


def check_tracker(backend: str) -> None:
    """Compare logits and gradients of a compiled tracker with the eager one, at every level."""
    for spec in LEVELS:
        torch._dynamo.reset()
        model = StateTracker(3, 5, 6, spec)
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        tokens = torch.randint(0, 3, (4, 9))
        expected, given = model(tokens), compiled(tokens)
        torch.testing.assert_close(given, expected)
        wanted = [p for p in model.parameters() if p.requires_grad]
        grads = [torch.autograd.grad(part.square().sum(), wanted) for part in (expected, given)]
        torch.testing.assert_close(grads[1], grads[0])


def check_lengths() -> None:
    """Compare one compiled program with the eager layer, and tracker, at lengths that it was not compiled for."""
    options = {"dtype": torch.float64}
    for spec, more in [(spec, {}) for spec in LEVELS] + [("block(2)", OPTIONS[1] | {"normalise": True})]:
        rnn = BilinearRNN(5, 6, transition=spec, **options, **more)
        _same_at_all_lengths(rnn, lambda time: (torch.randn(3, time, 5, dtype=torch.float64),))
    _same_at_all_lengths(
        BilinearRNN(5, 6, num_layers=2, bidirectional=True, **options),
        lambda time: (torch.randn(3, time, 5, dtype=torch.float64), None, torch.tensor([time, 0, 2])),
    )
    for readout in ("plain", "normalised"):
        _same_at_all_lengths(
            StateTracker(3, 5, 6, readout=readout).double(), lambda time: (torch.randint(3, (4, time)),)
        )


def _same_at_all_lengths(module: torch.nn.Module, draw: Callable[[int], tuple]) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=counter, dynamic=True)
    wanted = [parameter for parameter in module.parameters() if parameter.requires_grad]
    compilations = []
    # torch takes sizes that are equal at first for one: the first length is no other size of the inputs
    for time in (9, 7, 30):
        arguments = draw(time)
        results = [_outputs(run(*arguments)) for run in (module, compiled)]
        torch.testing.assert_close(results[1], results[0])
        grads = [torch.autograd.grad(result.square().sum(), wanted, allow_unused=True) for result in results]
        torch.testing.assert_close(grads[1], grads[0])
        compilations.append(counter.frame_count)
    assert compilations[0] == compilations[-1], f"compilations until each length: {compilations}"


def _outputs(result: torch.Tensor | tuple) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def check_export() -> None:
    """Compares an exported program, with the batch size left open, with the layer."""
    for spec in LEVELS:
        for options in OPTIONS:
            rnn = BilinearRNN(5, 6, transition=spec, **options).eval()
            batch = torch.export.Dim("batch", min=2, max=64)
            program = torch.export.export(rnn, (torch.randn(3, 4, 5),), dynamic_shapes={"x": {0: batch}})
            x = torch.randn(7, 4, 5)
            torch.testing.assert_close(program.module()(x), rnn(x))


def check_million() -> None:
    """Follows a state that grows threefold a million times."""
    with torch.no_grad():
        grow = Diagonal.from_dense(torch.diag(torch.tensor([-3.0, 1.0])).unsqueeze(-1))
        (_, log_norm), (final, last) = unroll_normalised(grow, torch.ones(1, 1_000_000, 1), torch.ones(1, 2))
    assert torch.isfinite(log_norm).all()
    torch.testing.assert_close(last.item(), 1_000_000 * math.log(3), rtol=1e-9, atol=0)
    torch.testing.assert_close(final, torch.tensor([[1.0, 0.0]]))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    {
        "export": check_export,
        "million": check_million,
        "lengths": check_lengths,
        "compile": lambda: check_compile(sys.argv[2]),
        "tracker": lambda: check_tracker(sys.argv[2]),
    }[sys.argv[1]]()
    print("agrees")
