"""Whether a Ray cluster is there: asked before Ray itself, which waits for minutes and then ends the process."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from statewise.errors import GridError, shorten

# of an address at which no cluster answers, in seconds: to connect, and all in all
_CONNECT, _ANSWER = 5.0, 15.0
# how often a cluster at work is asked, and how long it may be silent; Ray ends the process after 60 seconds
_EVERY, _SILENT = 3.0, 12.0
_ASK = "import sys; from ray.scripts.scripts import main; sys.argv[0] = 'ray'; main()"
# what makes Ray listen on loopback alone
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def check_address(address: str) -> None:
    """Refuse an address at which no cluster answers, or one that needs another token."""
    place = place_of(address)
    if place is None:
        return
    began = time.monotonic()
    if not _listens(place, _CONNECT):
        raise no_cluster(address, "nothing listens there")
    try:
        command = [sys.executable, "-c", _ASK, "health-check", "--address", f"{place[0]}:{place[1]}"]
        left = _ANSWER - (time.monotonic() - began)
        done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
    except subprocess.TimeoutExpired:
        raise no_cluster(address, "what listens there is no Ray") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["it is not healthy"]
        wrong = "its token is another" if "Auth" in said[0] else shorten(said[0], 160)
        raise no_cluster(address, wrong)


def no_cluster(address: str | None, why: str) -> GridError:
    """Build the error for an address without a cluster."""
    return GridError(
        f'no Ray cluster answers at "{shorten(address)}": {why}; start one with "ray start --head", or give its token, '
        "with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
    )


def place_of(address: str) -> tuple[str, int] | None:
    """Return the host and the port of an address; None for a word such as "auto"."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() and int(port) < 1 << 16 else None


class Watch:
    """Notice that a cluster is gone before Ray does.

    Args:
        address: of its head.
        clock: tells seconds.
        silent: how long it may be silent, in seconds.
    """

    def __init__(
        self, address: str, clock: Callable[[], float] = time.monotonic, every: float = _EVERY, silent: float = _SILENT
    ) -> None:
        self._place, self._clock, self._every, self._silent = place_of(address), clock, every, silent
        self._asked = self._heard = clock()
        self.gone = False

    def look(self) -> bool:
        """Return whether the cluster is there, or was moments ago."""
        now = self._clock()
        if self._place is not None and not self.gone and now - self._asked >= self._every:
            self._asked = now
            if _listens(self._place, 1.0):
                self._heard = self._clock()
            self.gone = now - self._heard > self._silent
        return not self.gone

    @property
    def answers(self) -> bool:
        """Whether it answers at this moment, so that Ray may be asked too."""
        return not self.gone and (self._place is None or _listens(self._place, 1.0))


@contextmanager
def private_cluster() -> Iterator[None]:
    """Let a cluster that is started inside listen on loopback alone, and ask for a token that this process has."""
    begun = "ray" in sys.modules
    if begun and (os.environ.get("RAY_AUTH_MODE"), bool(os.environ.get("RAY_AUTH_TOKEN"))) != ("token", True):
        raise GridError(
            "Ray was imported before it had a token, which it reads once; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
            "before, or give the address of a cluster"
        )
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    before = os.environ.get(_LOOPBACK)
    os.environ[_LOOPBACK] = "0"
    try:
        need_ray()
        # it has read the variable, if it was imported before
        from ray._private import ray_constants

        ray_constants.ENABLE_RAY_CLUSTER, several = False, ray_constants.ENABLE_RAY_CLUSTER
        yield
        # one that was read just now was ours
        ray_constants.ENABLE_RAY_CLUSTER = several or not begun
    finally:
        if before is None:
            del os.environ[_LOOPBACK]
        else:
            os.environ[_LOOPBACK] = before


def need_ray() -> Any:
    """Import Ray; its absence is one sentence."""
    try:
        import ray
    except ImportError:
        raise GridError('engine "ray" needs the package ray, which is not installed; install statewise[ray]') from None
    return ray


def _listens(place: tuple[str, int], seconds: float) -> bool:
    try:
        socket.create_connection(place, timeout=seconds).close()
    except (OSError, ValueError):
        return False
    return True
