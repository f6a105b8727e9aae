"""Networks on the Hugging Face Hub: huggingface_hub's own mixin, with the files of `save_pretrained`.

What is pushed can be read by the plain classes too, from a directory; nothing is unpickled or imported on the way. Only
this module needs the package.
"""

from pathlib import Path
from typing import Any

from statewise.errors import ToolMissingError
from statewise.models.layer import BilinearRNN
from statewise.models.pretrained import Pretrained, of_class, write_pretrained
from statewise.models.tracker import StateTracker

try:
    from huggingface_hub import ModelHubMixin, snapshot_download
except ImportError:
    raise ToolMissingError(
        "huggingface_hub is not installed; pip install 'statewise[hub]' to share networks there"
    ) from None

_CARD = {
    "library_name": "statewise",
    "tags": ["statewise", "bilinear-rnn", "state-tracking"],
}


class _OnHub(ModelHubMixin, **_CARD):
    """How the mixin writes and reads a directory."""

    def _save_pretrained(self, save_directory: Path) -> None:
        assert isinstance(self, Pretrained)
        write_pretrained(save_directory, self, self.saved_as(), self.arguments())

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        token: str | bool | None = None,
        **others: Any,
    ) -> Any:
        """Read a directory, or a repository, whose files are downloaded; arguments come from its config alone."""
        assert issubclass(cls, Pretrained)
        folder = model_id
        if not Path(model_id).is_dir():
            folder = snapshot_download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
        return of_class(cls, folder)


# the mixin's methods take the place of the plain ones, whose files they write and read
class HubTracker(_OnHub, StateTracker):  # pyright: ignore[reportIncompatibleMethodOverride, reportGeneralTypeIssues]
    """A `StateTracker` with `push_to_hub`, and with `from_pretrained` of a repository too."""


class HubBilinearRNN(_OnHub, BilinearRNN):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A `BilinearRNN` with `push_to_hub`, and with `from_pretrained` of a repository too."""
