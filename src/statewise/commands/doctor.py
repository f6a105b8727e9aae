"""`statewise doctor`: what is installed here, what computes, and what is missing; what a bug report should contain."""

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from statewise import __version__
from statewise.wording import Lines, Result

_CORE = ("torch", "numpy", "jaxtyping", "typer", "rich", "pydantic", "safetensors", "jinja2")
# what each extra is for, and a package that shows whether it is there
_EXTRAS = {
    "plots": ("matplotlib", "figures, and the page of a store"),
    "certify": ("python-flint", "long words in ball arithmetic"),
    "learn": ("aalpy", "state merging and active learning"),
    "ray": ("ray", "sweeps on a cluster"),
    "tensorboard": ("tensorboard", "scalars of a run"),
    "parquet": ("pyarrow", "runs as Parquet"),
    "hub": ("huggingface_hub", "networks on the Hugging Face Hub"),
    "export": ("onnx", "networks as ONNX files"),
}
_PROGRAMS = {"dot": "pictures of machines (graphviz)"}
_GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Diagnosis(Result):
    """What was found.

    Args:
        versions: of Python and of packages; None where one is not installed.
        backend: what computes recurrences: native or torch.
        backend_reason: why.
        compiler: the C++ compiler.
        extras: which are installed.
        programs: where programs are that are not Python's.
        cores: of this machine.
        threads: that torch would use.
        disk: free bytes in the working directory and where temporary files go.
        variables: settings in the environment.
    """

    versions: dict[str, str | None]
    backend: str
    backend_reason: str
    compiler: str | None
    extras: dict[str, bool]
    programs: dict[str, str | None]
    cores: int
    threads: int | None
    disk: dict[str, int]
    variables: dict[str, str]

    @property
    def failed(self) -> bool:
        """Whether something is missing that every command needs."""
        return any(self.versions[name] is None for name in _CORE)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return dict(vars(self))

    def lines(self) -> Lines:
        """Return all of it on one page."""
        missing = [name for name, version in self.versions.items() if version is None]
        shown = ", ".join(f"{name} {version}" for name, version in self.versions.items() if version is not None)
        lines = [("versions", shown)]
        if missing:
            lines.append(("missing", f"{', '.join(missing)}; install statewise with pip, which brings them"))
        lines += [
            ("platform", f"{platform.platform()}, {platform.machine()}"),
            ("kernels", f"{self.backend}: {self.backend_reason}"),
            ("compiler", self.compiler or "none; without one the same computations run in torch"),
            ("cores", f"{self.cores}, torch threads {self.threads if self.threads is not None else 'unknown'}"),
        ]
        lines += [("disk", f"{free / _GIGABYTE:.1f} GB free in {place}") for place, free in self.disk.items()]
        for name, there in self.extras.items():
            about = f"{name} ({_EXTRAS[name][1]})"
            found = f"{_EXTRAS[name][0]} {_version(_EXTRAS[name][0])}" if there else f"pip install 'statewise[{name}]'"
            lines.append(("extra", f"{about}: {found}"))
        for name, where in self.programs.items():
            lines.append(("program", f"{name}, for {_PROGRAMS[name]}: {where or 'not found'}"))
        lines += [("setting", f"{name}={value}") for name, value in self.variables.items()]
        return lines


def doctor() -> Diagnosis:
    """Show versions, kernels, extras, disk and threads: what a bug report should contain."""
    versions = {"statewise": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in _CORE}
    extras = {name: _version(package) is not None for name, (package, _) in _EXTRAS.items()}
    programs = {name: shutil.which(name) for name in _PROGRAMS}
    places = {str(Path.cwd()), tempfile.gettempdir()}
    disk = {place: shutil.disk_usage(place).free for place in sorted(places)}
    # of Ray's settings the address alone: others may be secrets
    shown = [name for name in os.environ if name.startswith(("STATEWISE_", "OMP_")) or name == "RAY_ADDRESS"]
    variables = {name: os.environ[name] for name in sorted(shown)}
    if versions["torch"] is None:
        return Diagnosis(
            versions, "none", "torch is missing", None, extras, programs, os.cpu_count() or 1, None, disk, variables
        )

    import torch

    from statewise.kernels import find_compiler, kernels

    found, asked = kernels(), os.environ.get("STATEWISE_BACKEND")
    backend = "torch" if asked == "torch" or found.library is None else "native"
    reason = "STATEWISE_BACKEND asks for it" if asked == "torch" else found.reason
    where = "" if found.file is None or asked == "torch" else f" ({found.file})"
    return Diagnosis(
        versions,
        backend,
        reason + where,
        find_compiler(),
        extras,
        programs,
        os.cpu_count() or 1,
        torch.get_num_threads(),
        disk,
        variables,
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
