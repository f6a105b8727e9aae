"""Records into figures, tables, and one self-contained page."""

from statewise.rooms import make_callable

# `sw.report(...)` writes the page of a store
make_callable(__name__)
