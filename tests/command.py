"""The command line in a process of its own, as a person or a script uses it."""

import subprocess
import sys

STATEWISE = [sys.executable, "-m", "statewise"]


def statewise(*arguments, **options):
    """Call the command, and return what it printed and how it ended."""
    options = {"timeout": 600} | options
    return subprocess.run([*STATEWISE, *map(str, arguments)], capture_output=True, text=True, **options)
