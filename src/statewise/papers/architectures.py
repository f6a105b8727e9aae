"""What theory says that models can track, and what their papers report, as data beside the ladder."""

from dataclasses import dataclass
from functools import cache

from statewise.expressions import Call, parse
from statewise.machines import Algebra, analyse, machine
from statewise.models.table import kind_of
from statewise.papers.rungs import Class, Rung
from statewise.theory.classification import Level, classify

_GROUPS: tuple[Class, ...] = ("Abelian group", "solvable group", "non-solvable group")
_ALL: tuple[Class, ...] = ("aperiodic", *_GROUPS, "other monoid", "protocol")
_PARITY = "G = arXiv:2411.12537, Table 3: parity, modular arithmetic without and with brackets, up to length 256"
_CYCLES = "W = arXiv:2505.17761, Table 2: cycle navigation, even pairs, arithmetic, parity, in %, up to length 256"


@dataclass(frozen=True)
class Known:
    """What is known of an architecture besides the levels of the hierarchy.

    Args:
        kind: the model's name without arguments.
        option: what its name must contain for this entry to hold; empty for any.
        says: what theory says.
        source: where.
        can: classes that it can track, by a theorem.
        cannot: classes that it cannot, by a theorem.
        reported: what papers measured.
    """

    kind: str
    says: str
    source: str
    option: str = ""
    can: tuple[Class, ...] = ()
    cannot: tuple[Class, ...] = ()
    reported: str = ""


_NON_LINEAR = "saturated gates simulate every finite-state machine"
_POSITIVE = "eigenvalues in (0, 1): no group, not even parity, at any depth"
# the first entry that fits a name holds
KNOWN = (
    Known("rnn", _NON_LINEAR, "arXiv:1906.01615", can=_ALL),
    Known("lstm", _NON_LINEAR, "arXiv:1906.01615", can=_ALL, reported="W 100/100/99.9/100"),
    Known("gru", _NON_LINEAR, "arXiv:1906.01615", can=_ALL),
    Known(
        "slstm",
        "non-linear, head-mixing recurrence; no theorem is known to us",
        "arXiv:2405.04517",
        reported="G 1/.787/.178; W 33/100/28/100",
    ),
    Known("mlstm", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS, reported="G .087/.040/.114; W 52/100/29/53"),
    Known(
        "mamba",
        "eigenvalues in (-1, 1): parity, but real diagonals know no other cycle",
        "arXiv:2411.12537",
        option="signed",
        cannot=("non-solvable group",),
        reported="G 1/.241/.116",
    ),
    Known(
        "mamba",
        "positive diagonal: exactly the star-free languages, with enough layers",
        "arXiv:2405.17394",
        cannot=_GROUPS,
        reported="G 0/.095/.123",
    ),
    Known(
        "mamba3",
        "scalar decay times rotations of planes: in one layer they commute, so Abelian groups alone",
        "arXiv:2404.08819",
        cannot=("non-solvable group",),
    ),
    Known(
        "transformer",
        "fixed depth is inside TC0: no non-solvable group unless TC0 = NC1",
        "arXiv:2207.00729",
        cannot=("non-solvable group",),
    ),
    Known("gla", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS),
    Known(
        "deltanet",
        "reflections: parity and swaps of two elements in one layer",
        "arXiv:2411.12537",
        option="negative=true",
        reported="G 1/.971/.260; W 47/100/66/98",
    ),
    Known("deltanet", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS, reported="G .017/.314/.194"),
    Known(
        "gated_deltanet",
        "reflections with decay: parity and swaps of two elements in one layer",
        "arXiv:2411.12537",
        option="negative=true",
    ),
    Known("gated_deltanet", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS, reported="W 54/100/43/57"),
    Known(
        "deltaproduct",
        "products of n reflections: permutations of n + 1 elements in one layer",
        "arXiv:2502.10297",
        reported="W 46/100/78/98; n = 4: A5 97.9 % (2 generators), S5 88.7 % (4)",
    ),
    Known("rwkv7", "four layers recognise every regular language", "arXiv:2503.14456", reported="W 38/88/40/51"),
    Known(
        "pd_ssm",
        "one layer tracks every machine of as many states as its state has entries",
        "arXiv:2509.22284",
        reported="W-tasks 99.5/99.7/96.2/99.9; A5 and S5 100 %",
    ),
    Known("slice", "dense blocks track what fits into them", "arXiv:2505.17761", reported="block 4: W 99.8/86/54/95"),
)


def known_of(model: str) -> Known | None:
    """Return what is known of a model of the table; None of levels, whose theory is this project's own."""
    kind = kind_of(model)
    spec = model.replace(" ", "").lower()
    return next((entry for entry in KNOWN if kind and entry.kind == kind.name and entry.option in spec), None)


def statement_of(model: str) -> str | None:
    """Return in one sentence what theory says that a model tracks; None of a user's own class."""
    kind, known = kind_of(model), known_of(model)
    if known is not None:
        return f"{known.says} ({known.source})"
    return None if kind is None or not kind.tracks else f"tracks, of finite-state machines: {kind.tracks}"


def legend_of(reported: str) -> list[str]:
    """Return what the letters in reported numbers stand for."""
    return [text for letter, text in (("G", _PARITY), ("W", _CYCLES)) if f"{letter} " in reported]


def predicted(model: str, rung: Rung) -> bool | None:
    """Return whether theory says that a model can track a rung at every length; None where it does not decide.

    Of a level, by the algebra of the machine (Theorems G and H); of others by what is known of the rung's class.
    """
    kind, known = kind_of(model), known_of(model)
    if known is not None:
        return True if rung.algebra in known.can else False if rung.algebra in known.cannot else None
    if kind is None or not kind.is_level:
        return None
    algebra, level = _facts(rung.task)
    parsed = parse(model)
    size = int(parsed.args[0]) if isinstance(parsed, Call) and parsed.args and isinstance(parsed.args[0], int) else 0
    match kind.name:
        case "full":
            return True
        case "block":
            return True if level.block <= size else False if level.at_least > size else None
        case "rotation":
            return algebra.abelian
        case "diagonal":
            return level.name in ("positive", "diagonal")
        case "positive":
            return level.name == "positive"
        case _:
            return None


@cache
def _facts(task: str) -> tuple[Algebra, Level]:
    built = machine(task)
    algebra = analyse(built)
    return algebra, classify(algebra, built)
