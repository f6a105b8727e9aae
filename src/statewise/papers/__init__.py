"""Papers as data: what they report, the grids that repeat it, and both side by side."""

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.paper import Paper, read_paper
from statewise.papers.table import Cell, Row, Table, as_json, table_of

__all__ = ["Ceiling", "Cell", "Paper", "Row", "Table", "as_json", "ceiling", "read_paper", "table_of"]
