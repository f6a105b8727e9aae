"""Papers as data: what they report, the grids that repeat it, and both side by side."""

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.claims import judge_claims
from statewise.papers.comparison import Cell, Row, Table, recorded, table_of
from statewise.papers.paper import PRESETS, Paper, read_paper

__all__ = [
    "PRESETS",
    "Ceiling",
    "Cell",
    "Paper",
    "Row",
    "Table",
    "ceiling",
    "judge_claims",
    "read_paper",
    "recorded",
    "table_of",
]
