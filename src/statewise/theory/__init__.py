"""Where machines and networks meet: that a network can be a machine is the theorem of the project.

    classify         the level of the hierarchy that a machine needs, from its algebra
    compile_machine  the exact weights of a machine, at any level that can track it
    network_of       a trained or compiled tracker as matrices
    extract          the machine that a network computes
    prototypes       the hidden direction of each machine state; then snap_exact, snap_project, Corrected
    polish_tracker   a trained tracker solved to machine precision, without its machine
    learn            a machine from labelled words: LabelledWords.from_pairs, read_words
    robustness       whether a machine can be tracked by an open set of weights
    certify          the package of proofs: statewise.theory.certify.certify

Most names need torch and are imported when first used.
"""

from typing import TYPE_CHECKING

from statewise.rooms import lazy_names

if TYPE_CHECKING:
    from statewise.theory.classification import Level, classify
    from statewise.theory.compile import Compiled, compile_machine, one_hot
    from statewise.theory.correction import Corrected
    from statewise.theory.extraction import Extracted, extract
    from statewise.theory.learning.labelled import LabelledWords, read_words
    from statewise.theory.learning.learner import Learned, learn
    from statewise.theory.network import Network, network_of
    from statewise.theory.polish import Polished, polish_tracker
    from statewise.theory.robust_machines import Robustness, robustness
    from statewise.theory.snap import Prototypes, prototypes, snap_exact, snap_project

__all__ = [
    "Compiled",
    "Corrected",
    "Extracted",
    "LabelledWords",
    "Learned",
    "Level",
    "Network",
    "Polished",
    "Prototypes",
    "Robustness",
    "classify",
    "compile_machine",
    "extract",
    "learn",
    "network_of",
    "one_hot",
    "polish_tracker",
    "prototypes",
    "read_words",
    "robustness",
    "snap_exact",
    "snap_project",
]

# no module has the name of a function in it: importing the module would hide the function
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "classification": ("Level", "classify"),
        "compile": ("Compiled", "compile_machine", "one_hot"),
        "correction": ("Corrected",),
        "extraction": ("Extracted", "extract"),
        "learning.labelled": ("LabelledWords", "read_words"),
        "learning.learner": ("Learned", "learn"),
        "network": ("Network", "network_of"),
        "polish": ("Polished", "polish_tracker"),
        "robust_machines": ("Robustness", "robustness"),
        "snap": ("Prototypes", "prototypes", "snap_exact", "snap_project"),
    },
)
