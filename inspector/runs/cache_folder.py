"""The private folder of torch's caches, which is kept between runs.

Its name holds a proof that this user's ctrace made it: torch unpickles the files in its caches, and a cloned
repository may contain any folder.
"""

from pathlib import Path

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.store import Store

PRIVATE = "private"
USER = "user"
FOLDER = ".caches"


def private_folder(store: Store) -> Path:
    """Return the folder of the private caches, and create it.

    Raises:
        RunError: it cannot be created, or ctrace has no key to prove that the folder is its own.
    """
    root = store.root.absolute()
    todo = "use your own caches: --user-caches"
    try:
        proof = provenance.proof_of(f"caches of {root.resolve()}")
        if not proof:
            raise RunError(f"no private caches in {root}: ctrace has no key to recognize its own folder", todo)
        folder = root / FOLDER / proof[:24]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = root / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
    except OSError as error:
        raise RunError(f"{root} cannot hold private caches: {error.strerror or error}", todo) from None
    return folder


def cache_environment(kind: str | None, folder: str) -> dict[str, str | None]:
    """Return the environment variables that point torch's caches to the private folder and switch them on."""
    if kind != PRIVATE:
        return {}
    return {
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": None,
    }
