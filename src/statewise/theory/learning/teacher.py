"""A teacher: what a system answers to words, each asked once, counted, and checked for contradictions."""

from collections.abc import Callable, Iterator, Sequence

from statewise.errors import ProgramError, StatewiseError, shorten
from statewise.stages import say
from statewise.theory.learning.labelled import MAX_NAME

Outputs = tuple[str, ...]
# an answer is the output after the last symbol, or one for each symbol
Answer = str | int | Sequence[str | int]
System = Callable[[tuple[str, ...]], Answer]
# so many first words are asked twice
_TWICE = 20


class BudgetEndedError(Exception):
    """The queries are used up."""


class Teacher:
    """The answers of a system, as a tree of words.

    Args:
        system: gets the symbols of a word, and begins anew with each.
        queries: how many words to ask at most, repetitions included.
    """

    def __init__(self, system: System, queries: int) -> None:
        self.system, self.queries = system, queries
        self.asked = 0
        # what follows each word: by symbol, the output and the node
        self.after: list[dict[str, tuple[str, int]]] = [{}]
        # the words that were asked and are in the tree
        self.kept: list[tuple[str, ...]] = []
        # whether an answer has an output for each symbol; None until a word of two symbols is asked
        self.each: bool | None = None

    def outputs(self, word: tuple[str, ...]) -> Outputs:
        """Return the outputs after each symbol of a word, asked for where they are not known."""
        known = self.known(word)
        if len(known) == len(word):
            return known
        # while it is not known what an answer is, the whole word says it
        if self.each or (self.each is None and len(word) > 1):
            answer = self._ask(word)
            if self.each:
                self._keep(word, answer)
                return answer
        for end in range(len(known) + 1, len(word) + 1):
            known = (*known, self._ask(word[:end])[-1])
            self._keep(word[:end], known)
        return known

    def confirm(self, word: tuple[str, ...]) -> None:
        """Ask for a known word again; an answer that is different now is refused."""
        answer = self._ask(word)
        known = self.known(word)
        self._compare(word, known if self.each else known[-1:], answer)

    def known(self, word: tuple[str, ...]) -> Outputs:
        """Return the outputs after the symbols of a word, as far as they are known."""
        node, found = 0, []
        for symbol in word:
            if symbol not in self.after[node]:
                break
            output, node = self.after[node][symbol]
            found.append(output)
        return tuple(found)

    def words(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield all words whose output is known."""
        waiting: list[tuple[tuple[str, ...], int]] = [((), 0)]
        while waiting:
            word, node = waiting.pop()
            for symbol, (output, below) in self.after[node].items():
                yield (*word, symbol), output
                waiting.append(((*word, symbol), below))

    def _ask(self, word: tuple[str, ...]) -> Outputs:
        answer = self._once(word)
        if self.asked <= _TWICE:
            self._compare(word, answer, self._once(word))
        return answer

    def _once(self, word: tuple[str, ...]) -> Outputs:
        """Ask the system, and return one output, or one for each symbol."""
        if self.asked >= self.queries:
            raise BudgetEndedError
        self.asked += 1
        say("asking the system", detail=lambda: f"{self.asked:,} of at most {self.queries:,} queries")
        try:
            answer = self.system(word)
        except StatewiseError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {shorten(error, 60)}"
            raise ProgramError(
                f"the system raises {what} at {_spell(word)}; expected an answer to each word; correct it"
            ) from error
        given = list(answer) if isinstance(answer, list | tuple) else [answer]
        if len(word) > 1 and self.each is None and len(given) in (1, len(word)):
            self.each = len(given) > 1
        expected = len(word) if self.each else 1
        if len(given) != expected:
            raise ProgramError(
                f"the system answers {_spell(word)} with {len(given)} outputs; expected the output after the last "
                "symbol, or one for each symbol, the same for all words; correct it"
            )
        return tuple(_name(word, output) for output in given)

    def _keep(self, word: tuple[str, ...], outputs: Outputs) -> None:
        known = self.known(word)
        self._compare(word, known, outputs[: len(known)])
        self.kept.append(word)
        node = 0
        for symbol, output in zip(word, outputs, strict=True):
            if symbol not in self.after[node]:
                self.after[node][symbol] = (output, len(self.after))
                self.after.append({})
            node = self.after[node][symbol][1]

    def _compare(self, word: tuple[str, ...], before: Outputs, now: Outputs) -> None:
        for one, other in zip(before, now, strict=True):
            if one != other:
                raise ProgramError(
                    f'the system answers {_spell(word)} differently when it is asked again: "{shorten(one, 20)}", then '
                    f'"{shorten(other, 20)}"; expected a deterministic system that begins anew with each word; '
                    "reset it between words"
                )


def _name(word: tuple[str, ...], output: object) -> str:
    """Return an output as its name."""
    if not isinstance(output, str | int):
        raise ProgramError(
            f"the system answers {_spell(word)} with {shorten(repr(output), 20)}; expected text or whole numbers; "
            "name it"
        )
    name = str(output).lower() if isinstance(output, bool) else str(output)
    if not 0 < len(name) <= MAX_NAME:
        raise ProgramError(
            f"the system answers {_spell(word)} with an output of {len(name)} characters; expected 1 to {MAX_NAME}; "
            "name it otherwise"
        )
    return name


def _spell(word: tuple[str, ...]) -> str:
    return f'the word "{shorten(" ".join(word), 40)}"'
