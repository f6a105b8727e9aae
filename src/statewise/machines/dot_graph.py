"""The syntax of DOT: a digraph as nodes and edges with their attributes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from statewise.errors import MachineFileError, TooLargeError, shorten
from statewise.machines.dot_html import HtmlText, edge_labels, html_end, node_label

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*
      | (?P<string>"(?:[^"\\]++|\\.)*+")
      | (?P<arrow>->|--)
      | (?P<mark>[{}\[\],=:]|;[;\s]*+)
      | (?P<plus>\+)
      | (?P<html><)
      | (?P<word>-?(?:\.\d+|\d+(?:\.\d*)?)(?!\w)|\w+)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# the attributes that say something of a machine; a file may give every edge thousands of others by default
_OF_PARTS = {"label", "shape", "peripheries"}
_OF_GRAPHS = {"name", "output_names"}
MAX_HTML = 20_000
KEYWORDS = {"strict", "graph", "digraph", "subgraph", "node", "edge"}


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
            yield "string", body.replace('\\"', '"')
        elif match.lastgroup == "html":
            end = html_end(text, position)
            if end - position > MAX_HTML:
                raise TooLargeError(
                    f"an HTML-like label has {end - position:,} characters; at most {MAX_HTML:,} are read"
                )
            yield "html", text[position + 1 : end - 1]
            position = end
            continue
        elif match.group() == "--":
            raise MachineFileError('the digraph has an undirected edge "--"; expected "->"; correct it')
        elif match.lastgroup:
            found = match.group()
            yield match.lastgroup, ";" if found[0] == ";" else found
        position = match.end()
    yield "end", ""


class _Reader:
    """A parser for the statements of one digraph; subgraphs and ports are not part of machine files."""

    def __init__(self, text: str) -> None:
        self.stream = _tokens(text)
        self.token = next(self.stream)
        self.defaults: dict[str, dict[str, str]] = {keyword: {} for keyword in KEYWORDS}
        self.read: dict[HtmlText, list[dict[str, str]]] = {}
        # what labels may come to, as defaults repeat one for every edge
        self.room = 2 * len(text) + 1_000_000

    def take(self) -> tuple[str, str]:
        """Take the next token."""
        token = self.token
        if token[0] != "end":
            self.token = next(self.stream)
        return token

    def text(self, where: str) -> str:
        """Take a name, a quoted text, several of these joined by +, or an HTML-like text."""
        kind, found = self.take()
        if kind == "html":
            return HtmlText(found)
        if kind not in ("word", "string"):
            raise MachineFileError(f'not DOT: "{shorten(found) or "the end"}" {where}; correct it')
        parts = [found]
        while kind == "string" and self.token[0] == "plus":
            self.take()
            kind, found = self.take()
            if kind not in ("word", "string"):
                raise MachineFileError(f'not DOT: "{shorten(found) or "the end"}" after +; correct it')
            parts.append(found)
        return "".join(parts)

    def expect(self, text: str) -> None:
        """Take a token that must be this text."""
        kind, found = self.take()
        if found != text or kind == "end":
            raise MachineFileError(f'not DOT: expected "{text}", found "{shorten(found) or "the end"}"; correct it')

    def graph(self) -> Graph:
        """Read the whole text."""
        graph = Graph()
        kind, first = self.take()
        if first.lower() == "strict":
            kind, first = self.take()
        if kind != "word" or first.lower() != "digraph":
            raise MachineFileError(f'not a DOT digraph: it begins with "{shorten(first)}"; expected digraph {{ ... }}')
        if self.token[0] in ("word", "string", "html"):
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
        """Read one statement: an attribute, an edge, a default or a node."""
        keyword = self.token[1].lower() if self.token[0] == "word" else ""
        name = self.text("where a node should stand")
        if keyword == "subgraph":
            raise MachineFileError("the graph has a subgraph; expected nodes and edges only; flatten it")
        if self.token == ("mark", "="):
            self.take()
            value = self.text("where a value should stand")
            if name in _OF_GRAPHS:
                graph.attributes[name] = value
        elif self.token[0] == "arrow":
            path = [name]
            while self.token[0] == "arrow":
                self.take()
                path.append(self.text("where the edge should lead"))
            attributes = self.defaults["edge"] | self.attributes()
            for node in path:
                if node not in graph.nodes:
                    self.use(len(self.defaults["node"].get("label", "")) + 1)
                    graph.nodes[node] = dict(self.defaults["node"])
            labels = self.labels_of(attributes.get("label"))
            made = [attributes | label for label in labels]
            self.use(len(path) * sum(len(one.get("label", "")) + 1 for one in made))
            graph.edges += [(p, q, one) for p, q in pairwise(path) for one in made]
        elif keyword in KEYWORDS:
            found = self.attributes()
            self.defaults[keyword] |= found | (node_label(found.get("label")) if keyword == "node" else {})
            if keyword == "graph":
                graph.attributes |= {key: found[key] for key in _OF_GRAPHS & found.keys()}
        else:
            found = self.attributes()
            self.use(len(self.defaults["node"].get("label", "")) + 1)
            graph.nodes[name] = graph.nodes.get(name, self.defaults["node"]) | found | node_label(found.get("label"))

    def labels_of(self, label: str | None) -> list[dict[str, str]]:
        """Return the labels of an edge; one that defaults repeat is read once."""
        if not isinstance(label, HtmlText):
            return edge_labels(label)
        if label not in self.read:
            self.read[label] = edge_labels(label)
        return self.read[label]

    def use(self, characters: int) -> None:
        """Count what labels come to, so that reading takes no longer than the file is long."""
        self.room -= characters
        if self.room < 0:
            raise TooLargeError("default labels repeat to far more than the file holds; give each edge its own label")

    def attributes(self) -> dict[str, str]:
        """Read the attributes in brackets, if there are any."""
        found: dict[str, str] = {}
        while self.token == ("mark", "["):
            self.take()
            while self.token != ("mark", "]"):
                key = self.text("among attributes").lower()
                self.expect("=")
                value = self.text("where the value of an attribute should stand")
                if key in _OF_PARTS | _OF_GRAPHS:
                    found[key] = value
                if self.token in (("mark", ","), ("mark", ";")):
                    self.take()
            self.take()
        return found


def read_graph(text: str) -> Graph:
    """Read one digraph."""
    return _Reader(text).graph()
