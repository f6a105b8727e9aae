"""C99 headers without any dependency: the table of a machine, or a network as numbers.

A machine is one table look-up per symbol. A network is one matrix per symbol, its weights written without rounding as
hexadecimal floating-point numbers; its state is divided by powers of two, so that no length overflows.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from statewise.errors import NetworkError
from statewise.files import temporary_folder
from statewise.machines import Machine
from statewise.models.tracker import StateTracker
from statewise.recurrence import token_table
from statewise.tasks import Source
from statewise.transitions import LinearTransition

_WIDTH = 100
_COMPILE_SECONDS = 120
# weights in all; a header of more would be tens of megabytes
_MOST_NUMBERS = 2_000_000

_HEAD = """\
/* {title}
 *
 * {says}
 *
 * Written by statewise {version}. C99, no dependencies. {use}
 */
#ifndef {guard}_H
#define {guard}_H

#include <stdint.h>

enum {{ {counts} }};

static const char *const {name}_symbol_names[{symbols}] = {{
{symbol_names}
}};
static const char *const {name}_output_names[{outputs}] = {{
{output_names}
}};
"""

_MACHINE = """
static const {kind} {name}_next[{states}][{symbols}] = {{
{rows}
}};
static const uint32_t {name}_outputs[{states}] = {{
{labels}
}};

typedef {kind} {name}_state;

/* the state before the first symbol */
static inline void {name}_begin({name}_state *state) {{ *state = {start}; }}

/* read one symbol, below {guard}_SYMBOLS */
static inline void {name}_step({name}_state *state, uint32_t symbol) {{ *state = {name}_next[*state][symbol]; }}

/* the number of the output in this state */
static inline uint32_t {name}_answer(const {name}_state *state) {{ return {name}_outputs[*state]; }}

#endif
"""

_NETWORK = """
static const {real} {name}_matrices[{symbols}][{hidden}][{hidden}] = {{
{matrices}
}};
static const {real} {name}_initial[{hidden}] = {{
{initial}
}};
static const {real} {name}_readout[{outputs}][{hidden}] = {{
{readout}
}};

typedef struct {{ {real} h[{hidden}]; }} {name}_state;

/* the state before the first symbol */
static inline void {name}_begin({name}_state *state) {{
  for (uint32_t i = 0; i < {hidden}; i++) state->h[i] = {name}_initial[i];
}}

/* read one symbol, below {guard}_SYMBOLS: h <- A h, divided by a power of two so that its largest entry is about 1 */
static inline void {name}_step({name}_state *state, uint32_t symbol) {{
  {name}_state next;
  {real} largest = 0, scale = 1;
  for (uint32_t i = 0; i < {hidden}; i++) {{
    {real} sum = 0;
    for (uint32_t j = 0; j < {hidden}; j++) sum += {name}_matrices[symbol][i][j] * state->h[j];
    next.h[i] = sum;
    if (sum > largest) largest = sum;
    if (-sum > largest) largest = -sum;
  }}
  /* neither 0, nor infinite, nor no number at all */
  if (largest > 0 && largest - largest == 0) {{
    while (largest * scale > 1) scale *= ({real})0.5;
    while (largest * scale <= ({real})0.5) scale *= 2;
  }}
  for (uint32_t i = 0; i < {hidden}; i++) state->h[i] = next.h[i] * scale;
}}

/* the logits U h, up to a positive factor */
static inline void {name}_logits(const {name}_state *state, {real} *logits) {{
  for (uint32_t c = 0; c < {outputs}; c++) {{
    logits[c] = 0;
    for (uint32_t j = 0; j < {hidden}; j++) logits[c] += {name}_readout[c][j] * state->h[j];
  }}
}}

/* the number of the output with the largest logit */
static inline uint32_t {name}_answer(const {name}_state *state) {{
  {real} logits[{outputs}];
  uint32_t best = 0;
  {name}_logits(state, logits);
  for (uint32_t c = 1; c < {outputs}; c++) if (logits[c] > logits[best]) best = c;
  return best;
}}

#endif
"""

_MAIN = """\
#include <stdio.h>
#include "{header}"

int main(void) {{
  static const uint32_t lengths[] = {{{lengths}}}, symbols[] = {{{words}}};
  uint32_t place = 0;
  for (uint32_t w = 0; w < {count}; w++) {{
    {name}_state state;
    {name}_begin(&state);
    for (uint32_t t = 0; t < lengths[w]; t++) {{
      {name}_step(&state, symbols[place++]);
      {shown}
    }}
  }}
  return 0;
}}
"""


_SHOW_ANSWER = 'printf("%u\\n", (unsigned){name}_answer(&state));'
_SHOW_LOGITS = """{{
        {real} logits[{guard}_OUTPUTS];
        {name}_logits(&state, logits);
        for (uint32_t c = 0; c < {guard}_OUTPUTS; c++) printf("%.17g\\n", (double)logits[c]);
      }}"""


def machine_header(machine: Machine, name: str, says: str) -> str:
    """Write the table of a machine as a header.

    Args:
        machine: what is written.
        name: with which all its names begin.
        says: what the table rests on, for the comment.
    """
    kind = next(
        k for k, most in (("uint8_t", 1 << 8), ("uint16_t", 1 << 16), ("uint32_t", 1 << 32)) if machine.states <= most
    )
    counts = {"STATES": machine.states, "SYMBOLS": machine.symbols, "OUTPUTS": machine.classes}
    head = _head(machine, name, says, f"{machine.states} states, {machine.symbols} symbols", counts)
    return head + _MACHINE.format(
        kind=kind,
        name=name,
        guard=name.upper(),
        states=machine.states,
        symbols=machine.symbols,
        start=machine.start,
        rows=",\n".join("{" + _filled(map(str, row)) + "}" for row in machine.delta.tolist()),
        labels=_filled(map(str, machine.outputs.tolist())),
    )


def network_header(model: StateTracker, source: Source, name: str, says: str) -> str:
    """Write a tracker as a header: a matrix per symbol, the initial state and the readout.

    Args:
        model: a tracker whose update is linear.
        source: the names of its symbols and outputs.
        name: with which all its names begin.
        says: what is known of the network, for the comment.
    """
    transition = model.transition
    if not isinstance(transition, LinearTransition):
        raise NetworkError(
            "the network has an additive term, for which there is no C header; export it --to onnx, or its machine"
        )
    matrices = transition.dense(token_table(transition, model.embeddings)).detach().numpy()
    initial, readout = model.initial_state.detach().numpy(), model.readout.detach().numpy()
    if matrices.size > _MOST_NUMBERS:
        raise NetworkError(
            f"the network has {matrices.size:,} numbers, more than a C header should hold; export it --to onnx"
        )
    symbols, hidden, _ = matrices.shape
    if symbols != source.symbols:
        raise NetworkError("the network reads tokens that are no symbols of its task; export it --to onnx")
    counts = {"SYMBOLS": symbols, "OUTPUTS": len(readout), "HIDDEN": hidden}
    title = f"a network of hidden size {hidden}, {symbols} symbols"
    return _head(source, name, says, title, counts) + _NETWORK.format(
        real="double" if matrices.dtype == np.float64 else "float",
        name=name,
        guard=name.upper(),
        symbols=symbols,
        hidden=hidden,
        outputs=len(readout),
        matrices=",\n".join("{" + _rows(matrix) + "}" for matrix in matrices),
        initial=_numbers(initial),
        readout=_rows(readout),
    )


def c_name(text: str) -> str:
    """Turn a text into a name of C."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    return name if re.match(r"[a-z]", name) else f"machine_{name}".rstrip("_")


def run_header(
    header: str, name: str, words: Sequence[Sequence[int]], logits: bool = False
) -> Float[np.ndarray, " value"] | None:
    """Compile a header with the C compiler of this computer, and run it.

    Args:
        header: its text.
        name: with which its names begin.
        words: numbers of symbols.
        logits: return the logits of a network, one after the other; else the numbers of the answers.

    Returns:
        What it gives after each symbol of each word; None where there is no compiler.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    with temporary_folder() as folder:
        (folder / "checked.h").write_text(header)
        flat = [symbol for word in words for symbol in word]
        main = _MAIN.format(
            header="checked.h",
            name=name,
            lengths=", ".join(str(len(word)) for word in words),
            words=", ".join(map(str, flat)),
            count=len(words),
            shown=(_SHOW_LOGITS if logits else _SHOW_ANSWER).format(
                name=name, guard=name.upper(), real="double" if "static const double" in header else "float"
            ),
        )
        (folder / "main.c").write_text(main)
        strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        command = [compiler, *strict, "-o", str(folder / "main"), str(folder / "main.c")]
        try:
            built = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
            if built.returncode:
                raise NetworkError(f"the C compiler refuses the header: {built.stderr.strip().splitlines()[0]}")
            done = subprocess.run([str(folder / "main")], capture_output=True, text=True, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
    return np.array(done.stdout.split(), dtype=np.float64)


def _head(source: Source, name: str, says: str, title: str, counts: dict[str, int]) -> str:
    from statewise import __version__

    guard = name.upper()
    # a network may have more outputs than its task names
    outputs = [*source.output_names, *(f"class {c}" for c in range(source.classes, counts["OUTPUTS"]))]
    return _HEAD.format(
        title=_comment(f"{source.name or name}: {title}"),
        says=_comment(says),
        version=__version__,
        use=f"{name}_begin, {name}_step, {name}_answer.",
        guard=guard,
        counts=", ".join(f"{guard}_{what} = {count}" for what, count in counts.items()),
        name=name,
        symbols=counts["SYMBOLS"],
        outputs=counts["OUTPUTS"],
        symbol_names=_filled(map(_string, source.alphabet)),
        output_names=_filled(map(_string, outputs)),
    )


def _comment(text: str) -> str:
    """Write a text that cannot end a comment, nor begin one."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("\n", " ")


def _string(text: str) -> str:
    """Write a string of C; what is not plain ASCII, and what begins a trigraph, as octal numbers of its bytes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _rows(matrix: np.ndarray) -> str:
    return ",\n".join("{" + _numbers(row) + "}" for row in matrix)


def _numbers(values: np.ndarray) -> str:
    """Write numbers without rounding: whole ones as such, others in hexadecimal."""
    suffix = "f" if values.dtype == np.float32 else ""
    return _filled(
        f"{int(value)}" if value == int(value) and abs(value) < 1 << 24 else f"{value.hex()}{suffix}"
        for value in values.astype(np.float64).tolist()
    )


def _filled(words: Iterable[str]) -> str:
    """Write words between commas, on lines of bounded length."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) > _WIDTH:
            lines.append(line)
            line = ""
        line += f"{word}, "
    lines.append(line)
    return "\n".join(line.rstrip() for line in lines).rstrip(",")
