"""Papers as data: what they report, the grids that repeat it, and both side by side."""

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.claims import judge_claims
from statewise.papers.comparison import Cell, Row, Table, recorded, table_of
from statewise.papers.lines import Heading, Line, headings_of, lines_of
from statewise.papers.paper import PRESETS, Paper, read_paper

__all__ = [
    "PRESETS",
    "Ceiling",
    "Cell",
    "Heading",
    "Line",
    "Paper",
    "Row",
    "Table",
    "ceiling",
    "headings_of",
    "judge_claims",
    "lines_of",
    "read_paper",
    "recorded",
    "table_of",
]
