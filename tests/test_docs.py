"""What README and docs show is real: code runs, commands succeed, outputs and numbers are those of runs and records."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import statewise
from statewise.models import BASELINES, LEVELS

ROOT = Path(__file__).parents[1]
DOCS, README = ROOT / "docs", ROOT / "README.md"
PAGES = [README, *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
NOT_RUN = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
SHELL, SHOWN = ("bash", "console"), ("text", "toml", "json")
# shell lines that are not run as they stand: installing is what `make` does, and its targets run this test
INSTALL, MAKE = "pip install ", "make "
LONGEST_README, MOST_WORDS, LONGEST_TABLE = 120, 2_000, 32
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code on a page: its language, its text, and the line that it begins in."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """Read the blocks of code of a page; an indented one has no language."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [
        Block(token.info.strip(), token.content, token.map[0] + 1)
        for token in tokens
        if token.type in ("fence", "code_block") and token.map is not None
    ]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RUNNABLE = [page for page in PAGES if any(block.language in (*SHELL, "python") for block in blocks_of(page))]


@pytest.mark.parametrize("page", [*PAGES, *NOT_RUN], ids=name_of)
def test_every_block_has_a_language_that_says_whether_it_is_run(page):
    for block in blocks_of(page):
        known = block.language in ("python", *SHELL, *SHOWN) or block.language.startswith("{")
        assert known, f"{name_of(page)}:{block.line} has the language {block.language!r}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    """One directory and one namespace per page: what a block leaves behind is there for the next."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    before, names = set(sys.modules), {"__name__": "page"}
    environment = with_statewise(tmp_path / "bin")
    for block in blocks_of(page):
        where = f"{name_of(page)}:{block.line}"
        if block.language.startswith("{literalinclude}"):
            shutil.copy(page.parent / block.language.split()[1], folder)
        elif block.language == "toml":
            file = re.match(r"# (\S+\.toml)\n", block.text)
            assert file, f"{where} does not begin with the name of its file"
            (folder / file[1]).write_text(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), names)
        elif block.language in SHELL:
            run_shell(block, where, environment)
    # two pages may have files of one name
    for name in set(sys.modules) - before:
        if (folder / f"{name}.py").exists():
            del sys.modules[name]


def with_statewise(folder: Path) -> dict[str, str]:
    """Return an environment whose `statewise` is the one under test."""
    folder.mkdir()
    script = folder / "statewise"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m statewise "$@"\n')
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return kept | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def run_shell(block: Block, where: str, environment: dict[str, str]) -> None:
    """Run a block line by line; in a console, what is shown below a command is all that it prints."""
    for command, shown in commands_of(block):
        if command.startswith(INSTALL):
            continue
        if command.startswith(MAKE):
            command = shlex.join(["make", "-n", "-C", str(ROOT), *shlex.split(command, comments=True)[1:]])
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
        if shown:
            assert list(map(timeless, done.stdout.splitlines())) == list(map(timeless, shown)), f"{where}: {command}"


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """Split a block into commands, each with the lines that are shown below it."""
    lines = [line for line in block.text.splitlines() if line or block.language == "console"]
    if block.language == "bash":
        return [(line, []) for line in lines if not line.startswith("#")]
    commands: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    return commands


def timeless(line: str) -> str:
    """Leave out of a line what depends on the computer: how long things took, and digits that are rounding errors."""
    return re.sub(r"^seconds .*|\d[\d,.]* s\b|residual \S+|up to [\d,]{12,} symbols", "...", line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_short_and_long_tables_folded(page):
    unfolded = FOLDED.sub("", page.read_text(encoding="utf-8"))
    assert len(unfolded.split()) <= MOST_WORDS
    tables = re.findall(r"(?:^\|.*\n)+", unfolded, re.MULTILINE)
    assert max((table.count("\n") for table in tables), default=0) <= LONGEST_TABLE


def test_readme_shows_the_demo_and_fits_its_bounds():
    assert len(README.read_text().splitlines()) <= LONGEST_README
    consoles = [command for block in blocks_of(README) if block.language == "console" for command in commands_of(block)]
    assert [command for command, shown in consoles if shown] == ["statewise demo"]


def test_readme_names_the_versions_of_python_that_the_package_takes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    for page in (README, DOCS / "quick-start.md"):
        assert f"Python {', '.join(named[:-1])} or {named[-1]}" in page.read_text()
    least, past = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert named == [f"3.{minor}" for minor in range(int(least), int(past))]


def test_quick_start_lists_every_extra_that_is_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = re.findall(r"^\| `'\.\[(\w+)\]'`", (DOCS / "quick-start.md").read_text(), re.MULTILINE)
    assert set(listed) == set(project["optional-dependencies"]) - {"bench", "test", "lint", "docs"}


@pytest.mark.parametrize("page", [README, *NOT_RUN], ids=name_of)
def test_links_outside_the_docs_lead_somewhere(page):
    """Links between pages of the docs are checked where these are built."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (ROOT / target).exists(), target


def test_the_hierarchy_in_readme_is_the_table_of_models():
    rows = [re.split(r" *\| *", line.strip("| ")) for line in README.read_text().splitlines() if line.startswith("| `")]
    written = {name.strip("`").split("(")[0]: facts for name, *facts in rows}
    levels = {kind.name: [kind.matrix, kind.parameters.replace("^2", "²"), kind.tracks] for kind in LEVELS.values()}
    assert written == levels
    assert list(written) == list(levels)
    (baselines,) = re.findall(r"^Baselines: (.*)", README.read_text(), re.MULTILINE)
    assert [name.split("(")[0] for name in re.findall(r"`(.*?)`", baselines)] == list(BASELINES)


def test_numbers_in_readme_are_those_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    made = __import__("make_reproduction")
    text = README.read_text(encoding="utf-8")
    assert text.count("| m = ") + text.count("full bilinear") > 0
    assert made.readme(text, made.RECORDS) == text


def test_the_reference_has_every_name_of_the_front_door():
    text = (DOCS / "api.md").read_text()
    commands = re.findall(r"autofunction:: (?:statewise\.(?:commands\.\w+\.)?)?(\w+)$", text, re.MULTILINE)
    classes = re.findall(r"autoclass:: statewise\.(\w+)$", text, re.MULTILINE)
    errors = {"StatewiseError"} if "automodule:: statewise.errors" in text else set()
    assert set(statewise.__all__) - {"__version__"} <= {*commands, *classes, *errors}


def test_the_commands_are_those_of_the_command_line(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    made = __import__("make_commands")
    assert made.page() == made.PAGE.read_text(encoding="utf-8")


def test_the_script_for_slurm_is_shown_and_can_be_parsed():
    script = ROOT / "examples" / "sweep.slurm"
    assert f"{{literalinclude}} ../examples/{script.name}" in (DOCS / "cluster.md").read_text()
    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("maker", ["make_recipes", "make_performance"])
def test_generated_parts_of_a_page_are_those_of_the_records(maker, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    made = __import__(maker)
    text = made.PAGE.read_text(encoding="utf-8")
    assert made.page(text) == text


def test_the_ladder_is_that_of_its_records(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    made = __import__("make_ladder")
    learned = made.read_rows(made.ROWS)
    cards = [*made.read_cards(made.RECORDS), made.learner_card(learned, made.TERMS)]
    assert len(cards) > 5
    assert made.page(cards, learned) == made.PAGE.read_text(encoding="utf-8")
    assert all((made.PICTURES / made._file(card)).is_file() for card in cards)
