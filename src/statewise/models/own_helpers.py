"""What a user's own model imports from beside it: files of the same package, or of the same directory.

Imports are read from the text, also those inside of functions; what a program imports by a computed name is not seen.
"""

import ast
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def helpers_of(file: Path, module: str | None = None) -> bytes:
    """Return the texts of all files that a file imports, directly or not, from its package or its directory.

    Args:
        file: with the class; it is not among them.
        module: its name, where it is part of a package; None of a file that stands alone.
    """
    depth = 0 if module is None else module.count(".") + (file.name == "__init__.py")
    # where the outermost package is; a file that stands alone has its own directory for that
    base = file.absolute().parents[depth]
    inside = "" if depth == 0 or module is None else module.partition(".")[0]
    if not inside and str(base) in set(sysconfig.get_paths().values()):
        # all that is installed stands there, and none of it was written for this file
        return b""
    seen, waiting = {file.absolute()}, [file.absolute()]
    while waiting:
        for found in _imported(waiting.pop(), base, inside):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    others = sorted(found.relative_to(base).as_posix() for found in seen - {file.absolute()})
    return b"".join(f"# {name}\n".encode() + (base / name).read_bytes() for name in others)


def _imported(file: Path, base: Path, inside: str) -> Iterator[Path]:
    """Return the files below a directory that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # what cannot be run says so when it is
        return
    own = file.relative_to(base).with_suffix("").parts
    for name in _names(tree, own[:-1]):
        parts = name.split(".")
        # other packages of the directory are no part of this one
        if inside and parts[0] != inside:
            continue
        for end in range(1, len(parts) + 1):
            place = base.joinpath(*parts[:end])
            for candidate in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                with suppress(OSError):
                    if candidate.is_file():
                        yield candidate


def _names(tree: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Return the full names of what a program imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (part.name for part in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{part.name}" if source else part.name for part in node.names)
