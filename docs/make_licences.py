"""Write docs/licences.md: the licence of every package that a set-up installs, as its own metadata states it.

Packages are those of constraints.txt; which of them the library itself needs follows from their requirements.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("licences.md")
HEAD = """# Licences

statewise is under the Apache License 2.0. These are the licences of the packages that `make test` installs, as their
own metadata state them. "always" marks those that come with `pip install statewise`; the others belong to an extra,
a test or the documentation.

<details><summary>Every package</summary>

| package | licence | when |
| --- | --- | --- |
"""
LONGEST = 60
# of packages whose metadata hold the whole text, or name none
_TEXTS = {
    "BSD": "Redistribution and use in source and binary forms",
    "MIT": "Permission is hereby granted, free of charge",
    "Apache-2.0": "Apache License",
    "PSF (matplotlib)": "License agreement for matplotlib",
    "NXAI Community License": "NXAI COMMUNITY LICENSE",
}


def pinned() -> list[str]:
    """Return the names of all pinned packages."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line.partition("==")[0] for line in lines if "==" in line and not line.startswith("#")]


def licence_of(package: str) -> str:
    """Return the licence that a package states, in short."""
    found = metadata.metadata(package)
    stated = found.get("License-Expression") or found.get("License") or ""
    classified = [c.rpartition(" :: ")[2] for c in found.get_all("Classifier") or [] if c.startswith("License ::")]
    named = [name for name in classified if name != "OSI Approved"]
    if (len(stated) > LONGEST or "\n" in stated or not stated) and named:
        stated = ", ".join(named)
    if not stated or len(stated) > LONGEST or "\n" in stated:
        texts = [
            stated,
            *(file.read_text() for file in metadata.files(package) or [] if "LICENSE" in file.name.upper()),
        ]
        stated = next((name for text in texts for name, begin in _TEXTS.items() if begin in text), "not stated")
    return stated


def needed() -> set[str]:
    """Return the packages that come with the library itself, theirs included."""
    waiting = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    found = set()
    while waiting:
        line = waiting.pop()
        name = _plain(re.match(r"[\w.-]+", line)[0])
        if "extra ==" not in line and name not in found and _is_here(name):
            found.add(name)
            waiting += metadata.requires(name) or []
    return found


def page() -> str:
    """Return the page."""
    always = needed()
    rows = [f"| {name} | {licence_of(name)} | {'always' if _plain(name) in always else ''} |" for name in pinned()]
    return HEAD + "\n".join(sorted(map(str.rstrip, rows), key=str.lower)) + "\n\n</details>\n"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_here(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    PAGE.write_text(page())
