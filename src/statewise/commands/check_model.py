"""`statewise check-model`: whether a model can be trained and scored fairly, without training it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import check_least, torch_threads
from statewise.models.table import is_own, spec_of
from statewise.wording import Lines, Result, counted

if TYPE_CHECKING:
    from statewise.models.own_check import ModelLaw


@dataclass(frozen=True)
class ModelCheck(Result):
    """What a model owes, and whether it keeps it.

    Args:
        model: its name.
        sizes: symbols, classes and hidden size that it was built with.
        laws: in the order in which they were tried.
    """

    model: str
    sizes: dict[str, int]
    laws: "tuple[ModelLaw, ...]"

    @property
    def failed(self) -> bool:
        """Whether any law is broken."""
        return any(law.broken for law in self.laws)

    def to_dict(self) -> dict[str, Any]:
        """Return the laws; one that could not be tried is neither kept nor broken."""
        checks = [
            {"name": law.name, "ok": not law.broken if law.checked else None, "reason": law.broken or None}
            for law in self.laws
        ]
        return {"model": self.model, **self.sizes, "ok": not self.failed, "checks": checks}

    def lines(self) -> Lines:
        """Return a line for each law."""
        broken = sum(bool(law.broken) for law in self.laws)
        end = f"{counted(broken, 'check')} failed: it is not trained" if broken else "it can be trained"
        return [*((law.name, _line(law)) for law in self.laws), ("", f"{self.model}: {end}")]


def check_model(model: str | type, symbols: int = 5, classes: int = 5, hidden: int = 16) -> ModelCheck:
    """Check that a model can be trained and scored: shapes, gradients, no future, no batch, the same in pieces.

    Args:
        model: a class such as file.py:Class(options), or the name of a model
        symbols: how many symbols it reads
        classes: how many output classes it has
        hidden: the hidden size
    """
    sizes = {"symbols": symbols, "classes": classes, "hidden": hidden}
    for name, value in sizes.items():
        check_least(name, value, 1)

    from statewise.models import ModelOptions, own_class
    from statewise.models.own_check import check_laws

    name = spec_of(model)
    own = own_class(model) if is_own(name) else None
    with torch_threads(1):
        return ModelCheck(name, sizes, check_laws(ModelOptions(name, hidden), symbols, classes, own))


def _line(law: "ModelLaw") -> str:
    return law.broken or (f"ok: {law.meaning}" if law.checked else "not checked")
