"""Grids of runs, as a TOML file lists them.

    name = "rates"

    [[grid]]
    task = ["parity", "random_machine(5, seed={seed}, kind=permutation)"]
    model = ["full", "rotation"]
    lr = [1e-3, 1e-2]
    seed = { first = 0, count = 5 }

Each `[[grid]]` is every combination of the lists in it; a plain value holds for all of its runs. `{seed}` in a task is
the run's own seed, so that each run draws a machine of its own.
"""

import itertools
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.errors import GridError, TooLargeError, UnreadableError, shorten
from statewise.reading import read_text

MAX_RUNS = 1_000_000
_MAX_FILE_BYTES = 10_000_000
_NAME = re.compile(r"[^\W_][\w .+-]{0,79}")
# options whose value is itself a list; a list of lists is then an axis
_LISTS = frozenset({"probe", "test_lengths"})


@dataclass(frozen=True)
class Grid:
    """Choices of options, block by block, each option with the values that it takes.

    Args:
        name: for people.
        blocks: each gives every combination of its values.
    """

    name: str
    blocks: tuple[dict[str, list[Any]], ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or ".." in self.name:
            raise GridError(
                f'the grid\'s name is "{shorten(self.name)}"; expected at most 80 letters, digits, spaces and . + - _, '
                "beginning with a letter or digit; rename it"
            )
        empty = next((option for block in self.blocks for option, values in block.items() if not values), None)
        if empty is not None or not self.blocks:
            what = "no [[grid]]" if empty is None else f'no values for "{shorten(empty)}"'
            raise GridError(f"the grid has {what}, so there is nothing to run; add what is missing")
        if self.size > MAX_RUNS:
            raise GridError(f"the grid has {shorten(f'{self.size:,}')} runs; at most {MAX_RUNS:,} are taken; split it")

    @property
    def size(self) -> int:
        """How many runs there are."""
        return sum(math.prod(len(values) for values in block.values()) for block in self.blocks)

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the options of each run, in the order of the file."""
        for block in self.blocks:
            for values in itertools.product(*block.values()):
                point = dict(zip(block, values, strict=True))
                if isinstance(point.get("task"), str):
                    point["task"] = point["task"].replace("{seed}", str(point.get("seed", 0)))
                yield point


def read_grid(file: Path) -> Grid:
    """Read a grid from a TOML file."""
    try:
        written = tomllib.loads(read_text(file, _MAX_FILE_BYTES))
    except TooLargeError:
        raise GridError(
            f'"{shorten(file)}" is larger than {_MAX_FILE_BYTES:,} bytes; write ranges as first, count'
        ) from None
    except UnreadableError as error:
        raise GridError(f'cannot read "{shorten(file)}": {error}; give a TOML file') from None
    except ValueError as error:
        raise GridError(f'"{shorten(file)}" is not TOML: {shorten(error)}; correct it') from None
    except RecursionError:
        raise GridError(f'"{shorten(file)}" nests too deep; expected lists of values; correct it') from None
    unknown = sorted(written.keys() - {"name", "grid"})
    if unknown:
        raise GridError(f'"{shorten(file)}" has "{shorten(unknown[0])}"; expected name and [[grid]] only; move it')
    blocks = written.get("grid", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise GridError(f'"{shorten(file)}" has a grid that is no [[grid]]; write [[grid]] above its options')
    name = written.get("name", file.stem)
    if not isinstance(name, str):
        raise GridError(f'the name in "{shorten(file)}" is no string; correct it')
    return Grid(name, tuple({option: _values(option, value) for option, value in block.items()} for block in blocks))


def _values(option: str, value: Any) -> list[Any]:
    if isinstance(value, dict):
        first, count = value.get("first", 0), value.get("count")
        if value.keys() - {"first", "count"} or not isinstance(first, int) or not isinstance(count, int) or count < 0:
            raise GridError(f'"{shorten(option)}" is {shorten(value)}; expected a range such as {{first=0, count=5}}')
        if count > MAX_RUNS:
            raise GridError(f'"{shorten(option)}" has {count:,} values; at most {MAX_RUNS:,} runs are taken; split it')
        return list(range(first, first + count))
    if isinstance(value, list) and (option not in _LISTS or any(isinstance(item, list) for item in value)):
        return value
    return [value]
