"""What theory says that models can track, and what their papers report, as data beside the ladder."""

import re
from dataclasses import dataclass
from functools import cache

from statewise.expressions import Call, parse
from statewise.machines import Algebra, analyse, machine
from statewise.models.table import kind_of
from statewise.papers.paper import Paper, read_paper
from statewise.papers.rungs import Class, Rung
from statewise.theory.classification import Level, classify

_GROUPS: tuple[Class, ...] = ("Abelian group", "solvable group", "non-solvable group")
_ALL: tuple[Class, ...] = ("aperiodic", *_GROUPS, "other monoid", "protocol")


@dataclass(frozen=True)
class _Numbers:
    """Published numbers that stand beside the ladder.

    Args:
        letter: what they are called.
        paper: the file of data that has them.
        table: the table of it.
        columns: in the order in which they are written.
        what: what they are, for a legend.
    """

    letter: str
    paper: str
    table: str
    columns: tuple[str, ...]
    what: str


_NUMBERS = (
    _Numbers(
        "G",
        "grazzi2024",
        "grazzi-table3",
        ("parity", "arithmetic", "brackets"),
        "Table 3: parity, modular arithmetic without and with brackets, up to length 256",
    ),
    _Numbers(
        "W",
        "chomsky",
        "chomsky-regular",
        ("cycle navigation", "even pairs", "arithmetic", "parity"),
        "Table 2: cycle navigation, even pairs, arithmetic, parity, in %, up to length 256",
    ),
)


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
        row: how published tables call it, where they have a row of it that no run stands beside.
        published_as: what published numbers are of, where that is one of several.
        besides: what other papers measured.
    """

    kind: str
    says: str
    source: str
    option: str = ""
    can: tuple[Class, ...] = ()
    cannot: tuple[Class, ...] = ()
    row: str = ""
    published_as: str = ""
    besides: str = ""


_NON_LINEAR = "saturated gates simulate every finite-state machine"
_POSITIVE = "eigenvalues in (0, 1): no group, not even parity, at any depth"
# the first entry that fits a name holds
KNOWN = (
    Known("rnn", _NON_LINEAR, "arXiv:1906.01615", can=_ALL),
    Known("lstm", _NON_LINEAR, "arXiv:1906.01615", can=_ALL),
    Known("gru", _NON_LINEAR, "arXiv:1906.01615", can=_ALL),
    Known(
        "slstm",
        "non-linear, head-mixing recurrence; no theorem is known to us",
        "arXiv:2405.04517",
    ),
    Known("mlstm", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS),
    Known(
        "mamba",
        "eigenvalues in (-1, 1): parity, but real diagonals know no other cycle",
        "arXiv:2411.12537",
        option="signed",
        cannot=("non-solvable group",),
    ),
    Known(
        "mamba",
        "positive diagonal: exactly the star-free languages, with enough layers",
        "arXiv:2405.17394",
        cannot=_GROUPS,
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
    ),
    Known("deltanet", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS),
    Known(
        "gated_deltanet",
        "reflections with decay: parity and swaps of two elements in one layer",
        "arXiv:2411.12537",
        option="negative=true",
    ),
    Known("gated_deltanet", _POSITIVE, "arXiv:2411.12537", cannot=_GROUPS),
    Known(
        "deltaproduct",
        "products of n reflections: permutations of n + 1 elements in one layer",
        "arXiv:2502.10297",
        row="Gated DeltaProduct [-1, 1]",
        besides="n = 4: A5 97.9 % (2 generators), S5 88.7 % (4)",
    ),
    Known("rwkv7", "four layers recognise every regular language", "arXiv:2503.14456"),
    Known(
        "pd_ssm",
        "one layer tracks every machine of as many states as its state has entries",
        "arXiv:2509.22284",
        besides="the tasks of W 99.5/99.7/96.2/99.9; A5 and S5 100 %",
    ),
    Known("slice", "dense blocks track what fits into them", "arXiv:2505.17761", published_as="blocks of 4"),
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


def reported_of(model: str) -> str:
    """Return what papers measured of a model: the numbers that their files of data have, and others."""
    known = known_of(model)
    if known is None:
        return ""
    found = [f"{numbers.letter} {written}" for numbers in _NUMBERS if (written := _published(known, numbers))]
    if found and known.published_as:
        found[0] = f"{known.published_as}: {found[0]}"
    return "; ".join([*found, *filter(None, [known.besides])])


def legend_of(reported: str) -> list[str]:
    """Return what the letters in reported numbers stand for."""
    used = [numbers for numbers in _NUMBERS if re.search(rf"\b{numbers.letter} ", reported)]
    return [f"{numbers.letter} = arXiv:{_paper(numbers.paper).citation.arxiv}, {numbers.what}" for numbers in used]


def _published(known: Known, numbers: _Numbers) -> str:
    """Write the numbers of the row that is of an architecture; empty where there is none."""
    for row in _paper(numbers.paper).published_rows:
        named = known.row and row.where.endswith(f", {known.row}")
        if row.table == numbers.table and (named or any(known_of(model) is known for model in row.models)):
            return "/".join(f"{row.scores[column]:g}" for column in numbers.columns)
    return ""


@cache
def _paper(name: str) -> Paper:
    return read_paper(name)


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
