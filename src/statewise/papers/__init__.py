"""Papers as data: what they report, the grids that repeat it, and both side by side."""

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.claims import judge_claims
from statewise.papers.comparison import Cell, Row, Table, recorded, table_of
from statewise.papers.lines import Heading, Line, headings_of, lines_of
from statewise.papers.paper import PRESETS, Paper, find_paper, paper_names, read_paper
from statewise.papers.scores import AtLength, MeanOverLengths, ScoreRule

__all__ = [
    "PRESETS",
    "AtLength",
    "Ceiling",
    "Cell",
    "Heading",
    "Line",
    "MeanOverLengths",
    "Paper",
    "Row",
    "ScoreRule",
    "Table",
    "ceiling",
    "find_paper",
    "headings_of",
    "judge_claims",
    "lines_of",
    "paper_names",
    "read_paper",
    "recorded",
    "table_of",
]
