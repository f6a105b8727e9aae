"""The list of commands in `statewise --help`: in groups, each with its whole sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typer.core import TyperGroup

from statewise.cli.shell import command
from statewise.wording import Result


@dataclass(frozen=True)
class Entry:
    """A command of the command line.

    Args:
        name: what a user types.
        function: what it calls.
        arguments: parameters that are positional.
        names: of flags that are called otherwise than their parameters.
        required: parameters that Python may leave out and a command may not.
    """

    name: str
    function: Callable[..., Result]
    arguments: Sequence[str] = ()
    names: Mapping[str, str] | None = None
    required: Sequence[str] = ()

    @property
    def made(self) -> Callable[..., None]:
        """The command as a function of its flags."""
        return command(self.function, self.arguments, self.names, self.required)


class Grouped(TyperGroup):
    """A group whose help lists its commands by their panels; no sentence is cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            found: Any = self.get_command(ctx, name)
            if found is not None and not found.hidden:
                panel = getattr(found, "rich_help_panel", None)
                sections.setdefault(panel if isinstance(panel, str) else "Commands", []).append(
                    (name, found.help or "")
                )
        width = max(len(name) for rows in sections.values() for name, _ in rows)
        for panel, rows in sections.items():
            with formatter.section(panel):
                # the same column in every section
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
