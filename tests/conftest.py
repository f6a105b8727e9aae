"""Shapes in signatures are checked while tests run; shared machines and strategies."""

from jaxtyping import install_import_hook

# before anything of statewise is imported
install_import_hook("statewise", "beartype.beartype")

import os  # noqa: E402

# processes that tests start share two cores too
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import secrets  # noqa: E402

# Ray reads its token once, when a process first imports it: all clusters of a test run have the same
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

from pathlib import Path  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

torch.set_num_threads(1)
threadpool_limits(1, user_api="blas")
hypothesis.settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("default")

MACHINE_FILES = Path(os.environ.get("STATEWISE_MACHINES", Path(__file__).parents[2] / "shared" / "data" / "machines"))


@pytest.fixture
def machine_files() -> Path:
    """The folder of machines learned from real protocol implementations."""
    if not MACHINE_FILES.is_dir():
        pytest.skip("the folder of protocol machines is absent; point STATEWISE_MACHINES at AALpy's DotModels")
    return MACHINE_FILES
