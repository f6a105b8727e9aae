"""The small language of names with arguments: `cyclic(4)*cyclic(6)`, `random_machine(10, kind=map)`, `block(2)`.

    expression := call ("*" call)*
    call       := name [ "(" [ argument ("," argument)* ] ")" ] | "(" expression ")"
    argument   := [ name "=" ] value          value := integer | number | string | name | true | false

Strings stand in single or double quotes; a backslash is itself, except before the quote that closes the string,
so that regular expressions need no doubling.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from statewise.errors import ExpressionError, shorten, unknown_name

MAX_LENGTH = 10_000
MAX_FACTORS = 64
MAX_DEPTH = 32

Value = int | float | str | bool
Result = TypeVar("Result")

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_]\w*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[()*,=])
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Call:
    """A name with its arguments, as written."""

    name: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the call as text that parses to it."""
        written = [_write(value) for value in self.args]
        written += [f"{key}={_write(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(written)})" if written else self.name


@dataclass(frozen=True)
class Product:
    """Two or more factors joined by `*`."""

    factors: tuple["Call | Product", ...]


def _write(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not (re.fullmatch(r"[A-Za-z_]\w*", value) and value not in ("true", "false")):
        mark = "'" if '"' in value and "'" not in value else '"'
        return mark + value.replace(mark, "\\" + mark) + mark
    return str(value)


class _Parser:
    """A recursive-descent parser of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None or match.lastgroup is None:
                where = len(stripped[position:]) - len(stripped[position:].lstrip()) + position
                raise self.error(f'"{shorten(stripped[where : where + 10])}" is not a name, number, string or mark')
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            position = match.end()
        self.tokens.append(("end", ""))
        self.position = 0

    def error(self, what: str) -> ExpressionError:
        return ExpressionError(f'cannot read "{shorten(self.text)}": {what}; write it like cyclic(4)*cyclic(6)')

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.tokens[self.position][0] == "mark" else ""

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.position]
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def expect(self, mark: str) -> None:
        kind, text = self.take()
        if kind != "mark" or text != mark:
            raise self.error(f'expected "{mark}"' + (f' before "{shorten(text)}"' if text else " at the end"))

    def product(self, depth: int) -> Call | Product:
        if depth > MAX_DEPTH:
            raise self.error(f"parentheses nest more than {MAX_DEPTH} deep")
        factors = [self.factor(depth)]
        while self.peek() == "*":
            self.take()
            factors.append(self.factor(depth))
        if len(factors) > MAX_FACTORS:
            raise self.error(f"it has {len(factors)} factors, at most {MAX_FACTORS} are read")
        return factors[0] if len(factors) == 1 else Product(tuple(factors))

    def factor(self, depth: int) -> Call | Product:
        if self.peek() == "(":
            self.take()
            inner = self.product(depth + 1)
            self.expect(")")
            return inner
        kind, name = self.take()
        if kind != "name":
            raise self.error(f'expected a name before "{shorten(name)}"' if name else "expected a name at the end")
        if self.peek() != "(":
            return Call(name)
        self.take()
        args: list[Value] = []
        kwargs: dict[str, Value] = {}
        while self.peek() != ")":
            self.argument(args, kwargs)
            if self.peek() != ",":
                break
            self.take()
        self.expect(")")
        return Call(name, tuple(args), kwargs)

    def argument(self, args: list[Value], kwargs: dict[str, Value]) -> None:
        kind, text = self.take()
        if kind == "name" and self.peek() == "=":
            self.take()
            if text in kwargs:
                raise self.error(f'"{shorten(text)}" is given twice')
            kwargs[text] = self.value(*self.take())
        elif kwargs:
            raise self.error("a plain argument stands after a named one")
        else:
            args.append(self.value(kind, text))

    def value(self, kind: str, text: str) -> Value:
        if kind == "string":
            return text[1:-1].replace("\\" + text[0], text[0])
        if kind == "name":
            return {"true": True, "false": False}.get(text, text)
        if kind != "number":
            raise self.error(f'expected a value before "{shorten(text)}"' if text else "expected a value at the end")
        if len(text) > 18:
            raise self.error(f"the number {shorten(text)} is too long")
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def parse(text: str) -> Call | Product:
    """Parse an expression; anything else raises an `ExpressionError` of one sentence."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read; use a file")
    if not text.strip():
        raise ExpressionError("the expression is empty; write one like cyclic(4)*cyclic(6)")
    parser = _Parser(text)
    result = parser.product(0)
    kind, rest = parser.take()
    if kind != "end":
        raise parser.error(f'"{shorten(rest)}" does not belong there')
    return result


def call(function: Callable[..., Result], spec: Call, given: Mapping[str, Any] | None = None) -> Result:
    """Call `function` with the arguments of `spec`, checked against its signature.

    Args:
        function: its annotations (int, float, str, bool, Literal, and unions of these) decide what is accepted.
        spec: the arguments as written.
        given: arguments that the program supplies and that cannot be written.
    """
    given = dict(given or {})
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function.__init__ if isinstance(function, type) else function)
    open_parameters = {name: p for name, p in signature.parameters.items() if name not in given}
    variadic = next((p for p in open_parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    positional = [p.name for p in open_parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if variadic is None and len(spec.args) > len(positional):
        raise ExpressionError(
            f"{spec.name} takes at most {len(positional)} arguments, got {len(spec.args)}; "
            f"write it as {usage(function, spec.name, given)}"
        )
    bound: dict[str, Any] = {}
    rest: list[Any] = []
    for index, value in enumerate(spec.args):
        if index < len(positional):
            bound[positional[index]] = _checked(spec.name, positional[index], value, hints)
        else:
            assert variadic is not None
            rest.append(_checked(spec.name, variadic.name, value, hints))
    named = {name for name, p in open_parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for name, value in spec.kwargs.items():
        if name not in named:
            raise unknown_name(f"argument of {spec.name}", name, named)
        if name in bound:
            raise ExpressionError(f"{spec.name} got its argument {name} twice; give it once")
        bound[name] = _checked(spec.name, name, value, hints)
    missing = [name for name in named if name not in bound and open_parameters[name].default is inspect.Parameter.empty]
    if missing:
        raise ExpressionError(
            f"{spec.name} needs the argument {sorted(missing)[0]}; write it as {usage(function, spec.name, given)}"
        )
    return function(*[bound.pop(name) for name in positional if name in bound and rest], *rest, **bound, **given)


def usage(function: Callable[..., object], name: str, given: Mapping[str, Any] | None = None) -> str:
    """Return how a function of a catalogue is called: `random_machine(states, symbols=0, ...)`."""
    written = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in (given or {}):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            written.append(f"{parameter.name}, ...")
        elif parameter.default is parameter.empty:
            written.append(parameter.name)
        else:
            written.append(f"{parameter.name}={'none' if parameter.default is None else _write(parameter.default)}")
    return f"{name}({', '.join(written)})" if written else name


def _checked(owner: str, name: str, value: Value, hints: Mapping[str, Any]) -> Any:
    """Return `value` if it fits the annotation of argument `name`, an integer as a float where one is expected."""
    options = _options(hints[name])
    literals = [option for option in options if not isinstance(option, type)]
    if any(value == literal and type(value) is type(literal) for literal in literals):
        return value
    for kind in options:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is kind:
            return value
    if literals and isinstance(value, str):
        raise unknown_name(f"{name} of {owner}", value, [str(literal) for literal in literals])
    wanted = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    expected = " or ".join(wanted[kind] for kind in options if isinstance(kind, type) and kind in wanted)
    expected = expected or "one of " + ", ".join(str(literal) for literal in literals)
    raise ExpressionError(f"{owner} needs {expected} for {name}, got {shorten(_write(value))}; correct it")


def _options(hint: Any) -> list[Any]:
    """Flatten an annotation into plain types and literal values."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return list(typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return [option for part in typing.get_args(hint) for option in _options(part)]
    return [hint]
