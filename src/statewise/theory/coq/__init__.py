"""Verdicts as theorems: a file that Coq compiles exactly if its verdict is proved.

Networks.v defines networks, machines and what "right" means; Orbit.v and Words.v are checkers, proved correct there. A
file that is written here holds these texts, the network, the machine and a witness, and runs the checker in Coq.
"""

from statewise.theory.coq.files import coq_file

__all__ = ["coq_file"]
