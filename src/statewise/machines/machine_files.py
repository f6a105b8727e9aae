"""Machines in files: JSON of our own, DOT as AALpy and automata-lib write it."""

import json
import os
from pathlib import Path
from typing import Any

from statewise.errors import MachineError, MachineFileError, TooLargeError, UnreadableError, shorten, unknown_name
from statewise.files import write_whole
from statewise.machines.dot import Kind, from_dot, to_dot
from statewise.machines.machine import MAX_ENTRIES, Machine
from statewise.reading import parse_json, read_text

SUFFIXES = (".json", ".dot", ".gv")
MAX_FILE_BYTES = 256_000_000
_REQUIRED = {"states", "alphabet", "start", "delta", "outputs"}
_OPTIONAL = {"output_names", "state_names", "name"}


def read_machine(path: str, kind: Kind = "auto", complete: bool = False) -> Machine:
    """Read a machine from a .json, .dot or .gv file.

    Args:
        path: the file.
        kind: for DOT, what its labels mean; "auto" infers it.
        complete: for DOT, lead missing transitions to a new state of their own instead of refusing them.
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise MachineFileError(f'"{shorten(path)}" is not a .json, .dot or .gv file; give the path of one')
    try:
        text = read_text(file, MAX_FILE_BYTES)
    except UnreadableError as error:
        refused = TooLargeError if isinstance(error, TooLargeError) else MachineFileError
        raise refused(f'cannot read "{shorten(path)}": {error}; give the path of a machine file') from None
    try:
        machine = from_json(text) if file.suffix.lower() == ".json" else from_dot(text, kind, complete)
    except (MachineError, MachineFileError, TooLargeError) as error:
        raise type(error)(f"{shorten(file.name)}: {error}") from None
    return machine if machine.name else machine.replace(name=file.stem)


def write_machine(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Write a machine to a .json, .dot or .gv file, whole or not at all; reading it back loses nothing."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise MachineFileError(f'"{shorten(file)}" is not a .json, .dot or .gv file; choose one of these endings')
    write_whole(file, to_json(machine) if file.suffix.lower() == ".json" else to_dot(machine))


def to_json(machine: Machine) -> str:
    """Return a machine as JSON: states, alphabet, start, delta, outputs, and names where they are not numbers."""
    data: dict[str, Any] = {
        "states": machine.states,
        "alphabet": list(machine.alphabet),
        "start": machine.start,
        "delta": machine.delta.tolist(),
        "outputs": machine.outputs.tolist(),
    }
    # numbers need no names; names beyond the largest output are kept
    if machine.output_names != tuple(map(str, range(int(machine.outputs.max()) + 1))):
        data["output_names"] = list(machine.output_names)
    if machine.state_names != tuple(map(str, range(machine.states))):
        data["state_names"] = list(machine.state_names)
    if machine.name:
        data["name"] = machine.name
    return json.dumps(data, ensure_ascii=False) + "\n"


def from_json(text: str | bytes) -> Machine:
    """Read a machine from JSON; outputs may be classes from 0, or names."""
    try:
        data = parse_json(text)
    except UnreadableError as error:
        raise MachineFileError(
            f"the JSON cannot be read: {error}; expected one flat object with delta and outputs"
        ) from None
    if not isinstance(data, dict):
        raise MachineFileError(f"the JSON holds a {type(data).__name__}; expected an object with delta and outputs")
    missing = sorted(_REQUIRED - data.keys())
    if missing:
        raise MachineFileError(f'the JSON has no "{missing[0]}"; expected {", ".join(sorted(_REQUIRED))}; add it')
    extra = sorted(data.keys() - _REQUIRED - _OPTIONAL)
    if extra:
        raise MachineFileError(str(unknown_name("key", extra[0], _REQUIRED | _OPTIONAL)))
    delta = _rows(data["delta"])
    if isinstance(data["states"], bool) or data["states"] != len(delta):
        raise MachineFileError(f'"states" is {shorten(data["states"])}, but delta has {len(delta)} rows; correct one')
    outputs, output_names = _labels(data["outputs"], _strings(data, "output_names"))
    start, name = data["start"], data.get("name", "")
    if not isinstance(start, int) or not isinstance(name, str):
        raise MachineFileError('"start" must be a state number and "name" a string; correct them')
    alphabet = data["alphabet"]
    if not isinstance(alphabet, list) or not all(isinstance(symbol, str | int) for symbol in alphabet):
        raise MachineFileError('"alphabet" must be a list of names; correct it')
    alphabet = [str(symbol) for symbol in alphabet]
    return Machine(delta, start, outputs, alphabet, output_names, _strings(data, "state_names"), name)


def _rows(delta: object) -> list[list[int]]:
    if not isinstance(delta, list) or not all(isinstance(row, list) for row in delta):
        raise MachineFileError('"delta" must be a list of rows, one per state; correct it')
    width = len(delta[0]) if delta else 0
    for q, row in enumerate(delta):
        if len(row) != width:
            raise MachineFileError(
                f"state {q} has {len(row)} transitions, state 0 has {width}; expected as many; add them"
            )
        for a, target in enumerate(row):
            if isinstance(target, bool) or not isinstance(target, int):
                what = f"state {q} leads on symbol {a} to {shorten(json.dumps(target))}"
                raise MachineFileError(f"{what}; expected a state number; correct it")
            if not 0 <= target < len(delta):
                raise MachineFileError(
                    f"state {q} leads on symbol {a} to {shorten(target)}; expected a state from 0 to {len(delta) - 1}"
                )
    if len(delta) * width > MAX_ENTRIES:
        raise TooLargeError(f"delta has {len(delta)} x {width} entries; at most {MAX_ENTRIES:,} are handled")
    return delta


def _strings(data: dict[str, Any], key: str) -> list[str] | None:
    value = data.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise MachineFileError(f'"{key}" must be a list of strings; correct it')
    return value


def _labels(outputs: object, names: list[str] | None) -> tuple[list[int], list[str] | None]:
    if not isinstance(outputs, list) or not outputs:
        raise MachineFileError('"outputs" must be a list with one output per state; correct it')
    if all(isinstance(output, int) and not isinstance(output, bool) for output in outputs):
        if any(abs(output) > 2**62 for output in outputs):
            raise MachineFileError('"outputs" holds a number past all bounds; expected classes from 0; use names')
        return outputs, names
    if all(isinstance(output, bool) for output in outputs):
        return [int(output) for output in outputs], names or ["0", "1"]
    if not all(isinstance(output, str) for output in outputs):
        raise MachineFileError('"outputs" mixes kinds; expected all classes from 0, or all names; correct it')
    names = names or list(dict.fromkeys(outputs))
    unknown = next((output for output in outputs if output not in names), None)
    if unknown is not None:
        raise MachineFileError(f'"outputs" has "{shorten(unknown)}", which output_names does not list; add it')
    number = {name: index for index, name in enumerate(names)}
    return [number[output] for output in outputs], names
