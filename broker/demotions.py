"""The file that keeps demotions over a tier's restarts: a demoted tokenizer stays so until an operator restores it.

One small JSON file a tier, replaced as a whole. Limits: when to demote and to restore is routing.py's matter.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .protocol import Demotion


class DemotionsError(Exception):
    """The file can't be read; the operator must mend it, or remove it and so restore everything."""


def load(path: Path) -> tuple[dict[str, Demotion], dict[str, Demotion]]:
    """Return what is demoted and what was restored, by hash; nothing where there is no file yet.

    Raises DemotionsError: to start without the demotions could give wrong answers.
    """
    try:
        read = json.loads(path.read_bytes())
        return _by_hash(read["demoted"]), _by_hash(read["restored"])
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DemotionsError(
            f"{path}: what is demoted can't be read ({error!r}); removing the file restores every tokenizer"
        ) from None


def save(path: Path, demoted: dict[str, Demotion], restored: dict[str, Demotion]) -> None:
    """Replace the file. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps({"demoted": list(demoted.values()), "restored": list(restored.values())}, indent=1))
    os.replace(new, path)


def _by_hash(entries: list[list[object]]) -> dict[str, Demotion]:
    read = [Demotion(str(sha256), str(reason), int(str(when))) for sha256, reason, when in entries]
    return {demotion.sha256: demotion for demotion in read}
