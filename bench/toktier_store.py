"""toktier loads a family by name from its own artifact cache; here that cache is filled from the tokenizer's file.

Only the tokenizer.json is given: the manifest that goes with it names that one file, with the digest that toktier's own
manifest has for it. A tokenizer whose digest toktier does not know is not given to it.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from .subjects import Subject


class UnknownToToktierError(Exception):
    """No family of toktier's has this tokenizer.json."""


def load(subject: Subject, device: str = "cpu") -> Any:
    """Return a toktier Tokenizer on the route of a device ('cpu', 'cuda'). Raises UnknownToToktierError."""
    toktier: Any = import_module("toktier")
    manifests: Any = import_module("toktier.artifacts.manifest")
    stores: Any = import_module("toktier.artifacts.store")
    shipped: Any = import_module("toktier.artifacts.tables")

    path = subject.json_path()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for family, entry in manifests.ArtifactManifest.load(shipped.ARTIFACT_MANIFEST).entries.items():
        file = next((one for one in entry.files if one.name == "tokenizer.json" and one.sha256 == digest), None)
        if file is None:
            continue
        manifest = manifests.ArtifactManifest(
            {family: manifests.ArtifactEntry(entry.family, entry.repo_id, entry.revision, (file,))}
        )
        home = Path(tempfile.mkdtemp(prefix="bench-toktier-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        config = toktier.Config.resolve(home=home, offline=True, disable_gpu=device == "cpu")
        folder = stores.ArtifactStore(manifest, config=config).directory(family)
        folder.mkdir(parents=True, mode=0o700)
        shutil.copyfile(path, folder / "tokenizer.json")
        return toktier.load(family, config=config, manifest=manifest, device=device)
    raise UnknownToToktierError("no family of toktier's has a tokenizer.json with this digest")
