"""How commands print: one JSON object, or aligned lines for a reader."""

import json
from collections.abc import Mapping
from typing import Any


def show(result: Mapping[str, Any], as_json: bool, lines: list[tuple[str, str]]) -> None:
    """Prints the JSON object, or the lines of (what, value) aligned for the eye."""
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
        return
    width = max(len(what) for what, _ in lines)
    for what, value in lines:
        print(f"{what.ljust(width)}  {value}".rstrip())
