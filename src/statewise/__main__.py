"""`python -m statewise` is the command `statewise`."""

from statewise.cli import main

main()
