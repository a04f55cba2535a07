"""Measure how much rewritten bytecode is understood: applicable diffs, explained insertions, proven sources.

Captures each file as `ctrace bytecode FILE` does, or reads a log (*.log).
usage: reconstruction.py [FILE_OR_FOLDER ...]
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from _measure import SAMPLES

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_scene import PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import Added, Explained, apply, explained, function_codes
from ctrace.inspector.features.bytecode.reconstruct import NotReconstructed, reconstruct
from ctrace.inspector.runs.load import load_log

AT_ONCE = 2
SECONDS = 300


@dataclass(frozen=True)
class Share:
    """How much bytecode of one run, or of all, is understood."""

    functions: int = 0
    """Functions and resume functions; each may be compiled several times."""
    compilations: int = 0
    applied: int = 0
    """Diffs that turn the old code into the new one."""
    inserted: int = 0
    """Instructions that only the new code has."""
    other: int = 0
    """Inserted instructions that no rule explains."""
    proven: int = 0
    """New code objects with a source that compiles to the same steps."""
    refused: Counter[str] = field(default_factory=Counter)
    """Why the others have no source."""

    def __add__(self, more: "Share") -> "Share":
        """Add two shares."""
        return Share(
            self.functions + more.functions,
            self.compilations + more.compilations,
            self.applied + more.applied,
            self.inserted + more.inserted,
            self.other + more.other,
            self.proven + more.proven,
            self.refused + more.refused,
        )

    def __str__(self) -> str:
        """Return the share as one line."""
        return (
            f"{self.functions} functions, {self.applied} of {self.compilations} diffs apply, "
            f"{self.inserted} instructions inserted, {self.other} of them not explained, "
            f"{self.proven} of {self.compilations} sources proven"
        )


def main() -> int:
    """Measure; return 1 if a diff does not apply or a file leaves no log."""
    files = list(_files(map(Path, sys.argv[1:] or [str(SAMPLES)])))
    shares = []
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        logs = pool.map(lambda numbered: _log(numbered[1], Path(folder, str(numbered[0]))), enumerate(files))
        for file, log in zip(files, logs, strict=True):
            share = None if log is None else _measured(load_log(log))
            print(f"{file.name}: {'no log' if share is None else share}", flush=True)
            shares += [] if share is None else [share]
    whole = reduce(Share.__add__, shares, Share())
    print(f"\nin all, {len(shares)} of {len(files)} runs: {whole}")
    for why, number in whole.refused.most_common():
        print(f"{number:5} refused: {why}")
    return 0 if len(shares) == len(files) and whole.applied == whole.compilations else 1


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted((*path.glob("*.py"), *path.glob("*.log"))) if path.is_dir() else [path]


def _log(file: Path, folder: Path) -> Path | None:
    """Capture a file; None if nothing was recorded."""
    if file.suffix == ".log":
        return file
    command = [sys.executable, "-m", "ctrace", "bytecode", str(file.resolve()), "-o", os.devnull]
    environment = {**os.environ, "CTRACE_DIR": str(folder)}
    # Ignore the program's own failures: what it compiled before is measured.
    subprocess.run(
        [*command, "--timeout", str(SECONDS)],
        env=environment,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return next(folder.glob("*/trace.log"), None)


def _measured(session: Session) -> Share:
    functions = [each for function in function_codes(session) for each in (function, *function.resumes)]
    codes = [explained(session, compiled) for function in functions for compiled in function.compiled]
    return reduce(Share.__add__, map(_one, codes), Share(functions=len(functions)))


def _one(each: Explained) -> Share:
    before, after = each.codes.before.instructions, each.codes.after.instructions
    added = {edit.after for edit in each.edits if isinstance(edit, Added)}
    strange = [piece for piece in each.pieces if piece.kind is PieceKind.OTHER]
    other = added & {at for piece in strange for at in range(piece.first, piece.last + 1)}
    source = reconstruct(each.codes.after)
    return Share(
        compilations=1,
        applied=int(apply(each.edits, before) == after),
        inserted=len(added),
        other=len(other),
        proven=int(not isinstance(source, NotReconstructed)),
        refused=Counter([source.why] if isinstance(source, NotReconstructed) else []),
    )


if __name__ == "__main__":
    sys.exit(main())
