"""Where broker and client meet when nobody names an endpoint: a folder that both find by themselves.

They may ask at any time, before the folder is made or after. So the answer depends on the environment and on what the
system and others made, never on anything that is made here. Limits: nothing is made here (endpoints.py).
"""

from __future__ import annotations

import os
import stat


def runtime_directory() -> str:
    """Return the folder of this user's endpoints; the broker makes it, mode 0700.

    It lies in XDG_RUNTIME_DIR, whether that exists yet or not, but not in one that belongs to another user (su and sudo
    leave the variable as it was) or that others can write; else in /run/user, where the system made this user's folder;
    else beside temporary files. Raises PermissionError where the last one belongs to somebody else.
    """
    chosen = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(chosen) and _trusted(chosen) is not False:
        return os.path.join(chosen, "tokseam")
    user = os.getuid()
    if _trusted(f"/run/user/{user}"):
        return f"/run/user/{user}/tokseam"
    import tempfile  # here, as few come so far

    folder = os.path.join(tempfile.gettempdir(), f"runtime-{user}")
    if _trusted(folder) is False:
        raise PermissionError(f"{folder} belongs to another user or can be written by one; set XDG_RUNTIME_DIR")
    return os.path.join(folder, "tokseam")


def _trusted(folder: str) -> bool | None:
    """Return whether a folder is this user's, and nobody else can write it; None where there is none (yet)."""
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def default_endpoint() -> str:
    """Return the endpoint where broker and client meet when nobody names one: TOKSEAM_ENDPOINT, or this user's own."""
    return os.environ.get("TOKSEAM_ENDPOINT") or f"ipc://{runtime_directory()}/front.sock"
