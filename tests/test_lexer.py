"""Python's lexer: the page is that of its records, and the machine answers as tokenize does."""

import json

import numpy as np
import pytest

from tests.command import ROOT

HARD = (
    """x = ''  # 'not a string'
y = '' 'a\\\\' "it's" + r"\\"" + f'{x}' # " ' ''' \\
z = \"\"\"one " two "" three \\\"\"\" four\"\"\" + '''a'b''c\\'''' + ''
w = "a\\
b" + """
    + '""""""'
    + "\n"
)


@pytest.fixture
def lexer(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return __import__("lexer")


def answers(machine, symbols):
    number = {symbol: place for place, symbol in enumerate(machine.alphabet)}
    states = machine.track(np.array([[number[symbol] for symbol in symbols]]))[0]
    return [machine.output_names[output] for output in machine.outputs[states]]


def test_the_machine_answers_as_tokenize_does(lexer):
    tools = lexer.python_lexer
    files = [file for file in tools.standard_library() if file.stem in ("bisect", "keyword", "textwrap")]
    assert len(files) == 3
    for source in [HARD, *(file.read_text() for file in files)]:
        symbols = tools.symbols_of(source)
        machine = lexer.lexer_machine(sorted(set(symbols)))
        assert answers(machine, symbols) == tools.lexer_states(source)
    assert {"escape", "comment", "triple double", "triple single", "single", "double"} <= set(tools.lexer_states(HARD))


def test_the_page_is_that_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = __import__("make_lexer")
    assert made.page() == made.PAGE.read_text(encoding="utf-8")
    assert made.FIGURE.is_file()
    facts = json.loads(made.MACHINE.read_text())
    assert (facts["wrong"], facts["states"]) == (0, 18)


def test_every_model_of_the_benchmark_is_on_the_page(lexer):
    page = (ROOT / "docs" / "lexer.md").read_text(encoding="utf-8")
    assert all(f"| `{model}` |" in page for model in lexer.MODELS)
