"""The syntax of DOT: a digraph as nodes and edges with their attributes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from statewise.errors import MachineFileError, shorten

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<arrow>->|--)
      | (?P<mark>[{}\[\];,=:])
      | (?P<word>[\w.+-]*?[\w.+](?=->|--|[^\w.+-]|$)|[^\s{}\[\];,=:"]+)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
KEYWORDS = {"graph", "node", "edge"}


@dataclass
class Graph:
    """Nodes and edges of a DOT text, in order of appearance, with their attributes."""

    attributes: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MachineFileError(
                f"not DOT: cannot read {shorten(text[position : position + 20])!r}; check its quotes"
            )
        if match.lastgroup == "string":
            # a backslash before a line end joins lines, before a quote it is dropped, elsewhere graphviz keeps it
            body = re.sub(r"\\\r?\n", "", match.group("string")[1:-1])
            yield "word", body.replace('\\"', '"')
        elif match.lastgroup:
            yield match.lastgroup, match.group()
        position = match.end()
    yield "end", ""


class _Reader:
    """Reads the statements of one digraph; subgraphs and ports are not part of machine files."""

    def __init__(self, text: str) -> None:
        self.stream = _tokens(text)
        self.token = next(self.stream)

    def take(self) -> tuple[str, str]:
        token = self.token
        if token[0] != "end":
            self.token = next(self.stream)
        return token

    def expect(self, text: str) -> None:
        kind, found = self.take()
        if found != text or kind == "end":
            raise MachineFileError(f'not DOT: expected "{text}", found "{shorten(found) or "the end"}"; correct it')

    def graph(self) -> Graph:
        graph = Graph()
        kind, first = self.take()
        if first.lower() == "strict":
            kind, first = self.take()
        if kind != "word" or first.lower() != "digraph":
            raise MachineFileError(f'not a DOT digraph: it begins with "{shorten(first)}"; expected digraph {{ ... }}')
        if self.token[0] == "word":
            self.take()
        self.expect("{")
        while self.token != ("mark", "}"):
            if self.token == ("mark", ";"):
                self.take()
            else:
                self.statement(graph)
        self.take()
        if self.token[0] != "end":
            raise MachineFileError("a second graph follows the first; expected one digraph in a file; split it")
        return graph

    def statement(self, graph: Graph) -> None:
        kind, name = self.take()
        if kind != "word":
            raise MachineFileError(f'not DOT: "{shorten(name) or "the end"}" where a node should stand; correct it')
        if name.lower() == "subgraph":
            raise MachineFileError("the graph has a subgraph; expected nodes and edges only; flatten it")
        if self.token == ("mark", "="):
            self.take()
            graph.attributes[name] = self.take()[1]
        elif self.token[0] == "arrow":
            path = [name]
            while self.token[0] == "arrow":
                self.take()
                kind, target = self.take()
                if kind != "word":
                    raise MachineFileError(f'not DOT: an edge of "{shorten(name)}" leads to no node; correct it')
                path.append(target)
            attributes = self.attributes()
            for node in path:
                graph.nodes.setdefault(node, {})
            graph.edges += [(p, q, attributes) for p, q in pairwise(path)]
        elif name.lower() in KEYWORDS:
            attributes = self.attributes()
            if name.lower() == "graph":
                graph.attributes |= attributes
        else:
            graph.nodes[name] = graph.nodes.get(name, {}) | self.attributes()

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.token == ("mark", "["):
            self.take()
            while self.token != ("mark", "]"):
                kind, key = self.take()
                if kind != "word":
                    raise MachineFileError(f'not DOT: "{shorten(key) or "the end"}" among attributes; correct it')
                value = "true"
                if self.token == ("mark", "="):
                    self.take()
                    kind, value = self.take()
                    if kind != "word":
                        raise MachineFileError(f'not DOT: attribute "{shorten(key)}" has no value; correct it')
                found[key.lower()] = value
                if self.token in (("mark", ","), ("mark", ";")):
                    self.take()
            self.take()
        return found


def read_graph(text: str) -> Graph:
    """Reads one digraph."""
    return _Reader(text).graph()
