"""`statewise compile`: a machine into weights."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewise.commands.certify import Certification
from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of, path_of, torch_threads
from statewise.commands.made import made_run
from statewise.errors import RunError, shorten
from statewise.machines import Machine
from statewise.runs.directory import check_free
from statewise.runs.run import Run
from statewise.stages import say
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.models import StateTracker

_DTYPES = ("float32", "float64")
# symbols between two comparisons along the random word
_BETWEEN = 1_000


@dataclass(frozen=True, eq=False)
class Compilation(Result):
    """A machine as weights, and the verdict on them.

    Args:
        certification: of the weights as stored.
        level: of the network.
        hidden: its hidden size.
        exact: whether its numbers are the ones that were meant; otherwise they were rounded.
        how: the construction, in words.
        parameters: how many numbers there are.
        dtype: of the weights.
        ran: the length of the random word that was run in floats.
        ran_right: whether every answer along it was right; None if none was run.
        run: the directory of the network.
    """

    certification: Certification
    level: str
    hidden: int
    exact: bool
    how: str
    parameters: int
    dtype: str
    ran: int
    ran_right: bool | None
    run: str | None

    @property
    def verified(self) -> bool:
        """Whether the network is proven equal to the machine at every length."""
        return self.certification.status == "proven" and self.ran_right is not False

    def to_dict(self) -> dict[str, Any]:
        """Return what was written, and what is proven of it."""
        verdict = self.certification.verdict
        return {
            "level": self.level,
            "hidden": self.hidden,
            "verified": self.verified,
            "exact": self.exact,
            "status": verdict.status,
            "method": verdict.method,
            "horizon": verdict.horizon,
            "how": self.how,
            "parameters": self.parameters,
            "ran": self.ran,
            "ran_right": self.ran_right,
            "run": self.run,
        }

    def lines(self) -> Lines:
        """Return what was written, and what is proven of it, for a reader."""
        machine, verdict = self.certification.machine, self.certification.verdict
        claim = "all lengths" if verdict.status == "proven" else f"words of up to {verdict.horizon:,} symbols"
        lines = [
            ("machine", f"{machine.name}: {machine.states} states, {machine.symbols} symbols"),
            ("network", f"{self.level}, hidden size {self.hidden}, {self.parameters:,} numbers"),
            ("how", self.how),
            ("proven", f"right on {claim} ({verdict.method}: {verdict.reason})"),
        ]
        if self.ran:
            lines.append(("ran", f"one word of {self.ran:,} symbols in {self.dtype}, right at every thousandth"))
        return lines if self.run is None else [*lines, ("run", self.run)]


def compile(
    machine: MachineLike,
    level: str = "auto",
    dtype: str = "float32",
    run: int = 1_000_000,
    out: PathLike | None = None,
) -> Run:
    """Write a machine as the weights of a network, and verify them.

    Args:
        machine: a name such as parity, or a .json or .dot file
        level: auto, full, cp, block(size), rotation, diagonal or positive
        dtype: float32 or float64
        run: also run a random word of so many symbols
        out: the directory of the network
    """
    if dtype not in _DTYPES:
        raise RunError(f'dtype is "{shorten(dtype)}"; expected float32 or float64; correct it')
    check_least("run", run, 0)
    built, directory = machine_of(machine), path_of(out)
    if directory is not None:
        check_free(directory)

    import torch

    from statewise.theory import compile_machine, network_of
    from statewise.theory.certify import certify

    with torch_threads(1):
        say("writing the network")
        compiled = compile_machine(built, level, getattr(torch, dtype))
        verdict = certify(network_of(compiled.model), built, seconds=0.0, all_words=True)
        length = run if verdict.horizon is None else min(run, verdict.horizon)
        right = _right_along(compiled.model, built, length) if length else None
    if verdict.status in ("refuted", "unknown") or right is False:
        raise RunError(f"the weights at level {compiled.level} did not pass their own check; use --level full")
    summary = Compilation(
        Certification(verdict, built),
        compiled.level,
        len(compiled.model.initial_state),
        compiled.exact,
        compiled.how,
        sum(parameter.numel() for parameter in compiled.model.parameters()),
        dtype,
        length,
        right,
        None if directory is None else str(directory),
    )
    return made_run("compiled", compiled, built, summary, directory)


def _right_along(model: "StateTracker", machine: Machine, length: int) -> bool:
    """Run one random word in floats, and compare the answer every thousand symbols."""
    import torch

    from statewise.randomness import stream

    word = stream(0, "compiled").integers(0, machine.symbols, length)
    right = machine.outputs[machine.track(word[None])[0]]
    state = model.init_state(1)
    with torch.no_grad():
        for begin in range(0, length, _BETWEEN):
            say("running one word", begin / length, f"{length:,} symbols")
            piece = word[begin : begin + _BETWEEN]
            logits, state = model.advance(torch.from_numpy(piece)[None], state)
            if int(logits[0].argmax()) != int(right[begin + len(piece) - 1]):
                return False
    return True
