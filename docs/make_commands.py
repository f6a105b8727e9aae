"""Write docs/commands.md, the reference of the command line, from its own help."""

from pathlib import Path
from typing import Any

import typer

from statewise.cli import app

LONGEST_TABLE = 6
PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

What `statewise COMMAND --help` says. Results go to stdout, progress to stderr; every command has `--json`, which prints
one object. Exit codes: 0 done, 1 a run or check failed, 2 the call was wrong, 130 interrupted by Ctrl-C, 143 by
SIGTERM, 129 by SIGHUP. The functions behind the
commands are in the [reference](api.md)."""


def page() -> str:
    """Return the page: a section for each group, a table of flags for each command."""
    root: Any = typer.main.get_command(app)
    sections: dict[str, list[str]] = {}
    for name, command in root.commands.items():
        if command.hidden:
            continue
        panel = command.rich_help_panel if isinstance(command.rich_help_panel, str) else "Commands"
        inner = getattr(command, "commands", {"": command})
        described = [_describe(f"{name} {child}".strip(), inner[child]) for child in inner]
        sections.setdefault(panel, []).extend(described)
    parts = [HEAD]
    for title, described in sections.items():
        parts += [f"## {title}", *described]
    return "\n\n".join(parts).rstrip() + "\n"


def _describe(name: str, command: Any) -> str:
    shown = [p for p in command.params if p.name not in ("json", "help")]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    usage = " ".join(["statewise", name, *(_metavar(p) if p.required else f"[{_metavar(p)}]" for p in arguments)])
    lines = [f"### {name}", "", command.help, "", f"`{usage}`", ""]
    if not shown:
        return "\n".join(lines).rstrip()
    folded = len(shown) > LONGEST_TABLE
    lines += [f"<details><summary>{len(shown)} options</summary>", ""] if folded else []
    lines += ["| option | meaning | default |", "| --- | --- | --- |"]
    for p in shown:
        flag = _metavar(p) if p in arguments else f"{p.opts[0]} {'' if p.is_flag else _metavar(p)}".strip()
        text = (p.help or "").replace("|", "\\|")
        lines.append(f"| `{flag}` | {text} | {_default(p)} |".replace("``", "`"))
    return "\n".join([*lines, "", "</details>"] if folded else lines)


def _metavar(p: Any) -> str:
    return (p.metavar or p.name.upper()).replace("|", "\\|")


def _default(p: Any) -> str:
    if p.required:
        return "required"
    return "–" if p.default is None or p.default is False else f"`{p.default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
