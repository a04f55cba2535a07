"""Prove that this user captured a saved run here: a clone, or a folder from somebody else, may contain runs too.

The proof is a keyed digest in the run's folder. The key is in the user's state folder, outside of projects, and nowhere
else. File ownership proves nothing, because files in a clone belong to the user as well.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
from pathlib import Path

from ctrace.inspector.files.writing import write_text
from ctrace.inspector.runs.store import SavedRun

_FILE = "made-here"
# As long as a digest of SHA-256: RFC 2104 advises no shorter key for an HMAC of it.
_KEY_BYTES = 32


def sign(run: SavedRun) -> None:
    """Write the proof that this process captured a run, if there is a key; without one, only a named target is rerun.

    Raises:
        OSError: the run's folder cannot be written.
    """
    key = _key(make=True)
    if isinstance(key, bytes):
        write_text(run.folder / _FILE, _digest(run, key) + "\n")


def doubt(run: SavedRun) -> str:
    """Return why nothing proves that a run was captured here, in this working directory; empty if that is proven."""
    key = _key(make=False)
    if isinstance(key, str):
        return key
    try:
        proof = (run.folder / _FILE).read_text(encoding="ascii", errors="replace").strip()
        expected = _digest(run, key)
    except OSError:
        return "nothing proves that it was captured here"
    if not hmac.compare_digest(proof.encode(), expected.encode()):
        return "it was captured elsewhere, or changed since"
    return ""


def proof_of(text: str) -> str:
    """Return the proof that this user's ctrace wrote a text; empty if there is no key.

    Raises:
        OSError: the key cannot be made.
    """
    key = _key(make=True)
    if isinstance(key, bytes):
        return _proof(text, key)
    return ""


def is_ours(text: str, proof: str) -> bool:
    """Whether a proof shows that this user's ctrace wrote a text."""
    key = _key(make=False)
    return isinstance(key, bytes) and hmac.compare_digest(proof.encode(), _proof(text, key).encode())


def _proof(text: str, key: bytes) -> str:
    # The prefix keeps a proof of a text from being one of a run.
    return hmac.new(key, b"text:" + text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def project(folder: Path) -> Path:
    """Return the project that a folder belongs to: the top of its git repository, else the folder itself."""
    real = folder.resolve()
    return next((each for each in (real, *real.parents) if (each / ".git").exists()), real)


def _digest(run: SavedRun, key: bytes) -> str:
    request = run.request.read_bytes()
    # Folder and working directory belong to it: a run that was copied to another project proves nothing there.
    facts = [str(run.folder.resolve()), run.name, str(Path.cwd()), hashlib.sha256(request).hexdigest()]
    return hmac.new(key, json.dumps(facts).encode(), hashlib.sha256).hexdigest()


def _state_folder() -> Path | None:
    """Return ctrace's folder for persistent state; None if the user has no home folder."""
    own = Path(os.environ.get("XDG_STATE_HOME", ""))
    if own.is_absolute():  # the XDG Base Directory Specification ignores relative paths
        return own / "ctrace"
    try:
        return Path.home() / ".local" / "state" / "ctrace"
    except RuntimeError:
        return None


def _key(*, make: bool) -> bytes | str:
    """Read the user's key; with `make`, create it if needed. If there is no trusted key, return why."""
    folder = _state_folder()
    if folder is None:
        return "there is no home folder for the key"
    try:
        # A clone could bring its own key along.
        if folder.resolve().is_relative_to(project(Path.cwd())):
            return f"{folder}, the folder for the key, is inside the project"
        if make:
            _make(folder)
        return _read(folder)
    except FileNotFoundError:
        return f"{folder} has no key yet to prove it"
    except OSError as error:
        return f"the key to prove it cannot be used: {folder}: {error.strerror or error}"


def _read(folder: Path) -> bytes | str:
    """Read the key, or return why it is not to be trusted."""
    # A link could lead to a file that others may write.
    descriptor = os.open(folder / "key", os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        for path, found in ((folder, folder.stat()), (folder / "key", os.fstat(descriptor))):
            if os.name == "posix" and not _is_private(found):
                return f"others may write {path}: chmod go-rwx {path}"
        # One byte more than a key, to see that the file is longer.
        key = file.read(_KEY_BYTES + 1)
    if len(key) == _KEY_BYTES:
        return key
    return f"{folder / 'key'} is damaged: delete it"


def _is_private(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make(folder: Path) -> None:
    """Create the key whole or not at all; if two processes create it, the first one wins."""
    if (folder / "key").exists():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".key.{secrets.token_hex(6)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        _put(temporary, folder / "key")
    finally:
        temporary.unlink(missing_ok=True)


def _put(temporary: Path, key: Path) -> None:
    try:
        os.link(temporary, key)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        temporary.replace(key)
