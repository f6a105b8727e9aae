"""The command line in a process of its own, as a person or a script uses it."""

import subprocess
import sys

STATEWISE = [sys.executable, "-c", "from statewise.cli import main; main()"]


def statewise(*arguments, **options):
    """Calls the command, and gives what it printed and how it ended."""
    options = {"timeout": 250} | options
    return subprocess.run([*STATEWISE, *map(str, arguments)], capture_output=True, text=True, **options)
