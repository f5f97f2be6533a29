"""Endpoints: read one, claim an ipc path without harming what is there, name the workers' socket beside it.

ZeroMQ's bind replaces whatever lies at an ipc path, even a live listener's socket or a regular file; hence the lock,
the look at what is there, and the folder that only its owner can enter. Limits: no ZeroMQ socket is made here.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
from pathlib import Path

from .protocol import IPC_PATH_MAX_BYTES, default_endpoint, runtime_directory


class EndpointError(Exception):
    """An endpoint that can't be used; the operator must name another, or end what uses it."""


def check_endpoint(endpoint: str) -> str:
    """Return the endpoint as ZeroMQ takes it.

    Raises EndpointError: neither ipc://PATH nor tcp://HOST:PORT, a path too long, an IPv6 address without brackets.

    >>> check_endpoint("tcp://[::1]:7100")
    'tcp://[::1]:7100'
    """
    scheme, separator, rest = endpoint.partition("://")
    if scheme == "ipc" and separator and rest:
        if rest.startswith(("@", "*")):
            raise EndpointError(f"{endpoint}: an ipc endpoint here is a path in the file system")
        path = os.path.abspath(rest)
        size = len(os.fsencode(path))
        if size > IPC_PATH_MAX_BYTES:
            raise EndpointError(
                f"{endpoint}: the path has {size} bytes, a Unix socket's at most {IPC_PATH_MAX_BYTES}; shorten it"
            )
        return f"ipc://{path}"
    if scheme == "tcp" and separator:
        host, colon, port = rest.rpartition(":")
        if not colon or not host or not (port.isdigit() and 0 < int(port) < 65536):
            raise EndpointError(f"{endpoint}: a tcp endpoint is tcp://HOST:PORT with a port from 1 to 65535")
        if ":" in host and not re.fullmatch(r"\[[0-9A-Fa-f:.]+(%\w+)?\]", host):
            raise EndpointError(f"{endpoint}: an IPv6 address stands in brackets, as in tcp://[::1]:{port}")
        return endpoint
    raise EndpointError(f"{endpoint}: an endpoint is ipc://PATH or tcp://HOST:PORT")


def is_ipv6(endpoint: str) -> bool:
    return endpoint.startswith("tcp://[")


def back_endpoint(front: str) -> str:
    """Return where a front endpoint's workers meet its broker: always ipc, beside it or in the runtime folder.

    >>> back_endpoint("ipc:///run/user/1000/tokseam/front.sock")
    'ipc:///run/user/1000/tokseam/front.sock.w'
    """
    if front.startswith("ipc://"):
        return check_endpoint(front + ".w")
    return check_endpoint(f"ipc://{runtime_directory()}/{re.sub('[^0-9A-Za-z]+', '-', front[6:]).strip('-')}.w")


def shadow_endpoint(front: str) -> str:
    """Return where a front endpoint's workers send samples to their verifier: beside the workers' endpoint.

    >>> shadow_endpoint("ipc:///run/user/1000/tokseam/front.sock")
    'ipc:///run/user/1000/tokseam/front.sock.v'
    """
    return back_endpoint(front)[:-1] + "v"


def ipc_path(endpoint: str) -> Path | None:
    return Path(endpoint[6:]) if endpoint.startswith("ipc://") else None


def make_private_folder(folder: Path) -> None:
    """Make the folder of a socket, mode 0700, and check that it is ours. A folder that others may enter is refused.

    Raises EndpointError.
    """
    try:
        # Folders above it that are missing too: a runtime directory that others could write is not looked for again.
        for missing in [*(above for above in reversed(folder.parents) if not above.exists()), folder]:
            missing.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise EndpointError(f"{folder}: {error.strerror}") from None
    if status.st_uid != os.getuid():
        raise EndpointError(f"{folder} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise EndpointError(
            f"{folder} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}); chmod 700 it"
        )


class Claim:
    """The right to bind an ipc path: a lock held for this process's life, and nothing alive at the path.

    The lock file stays behind on release: to remove it would let two processes hold two files of one name.
    """

    def __init__(self, endpoint: str) -> None:
        #: None for tcp, where the kernel itself refuses a port in use.
        self.path = ipc_path(endpoint)
        self._lock: int | None = None
        if self.path is None:
            return
        make_private_folder(self.path.parent)
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise EndpointError(f"{endpoint} is served by another broker, which is alive") from None
        try:
            _clear_path(self.path)
        except EndpointError:
            self.release()
            raise

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _clear_path(path: Path) -> None:
    """Remove a dead broker's socket. Raises EndpointError when something else lies there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise EndpointError(f"{path} exists and is not a socket; it is left alone")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise EndpointError(f"{path}: {error.strerror or error}") from None
    raise EndpointError(f"{path}: something listens there")


__all__ = [
    "Claim",
    "EndpointError",
    "back_endpoint",
    "check_endpoint",
    "default_endpoint",
    "ipc_path",
    "is_ipv6",
    "make_private_folder",
    "shadow_endpoint",
]
