"""A turnstile to learn: it reads a word per line, starts anew with each, and answers with an output per symbol.

Usage: statewise learn --system "python turnstile_system.py" --symbols coin,push --out turnstile
"""

import sys

for line in sys.stdin:
    credit, outputs = 0, []
    for symbol in line.split():
        if symbol == "coin":
            outputs.append("paid" if credit < 2 else "full")
            credit = min(credit + 1, 2)
        else:
            outputs.append("go" if credit else "locked")
            credit = max(credit - 1, 0)
    print(*outputs, flush=True)
