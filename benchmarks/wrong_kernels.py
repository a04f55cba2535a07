"""Counts what `ctrace kernels edit` says of kernels that are wrong, and of some that are right.

    python benchmarks/wrong_kernels.py                                in Triton's interpreter, or on a GPU
    python benchmarks/wrong_kernels.py --versions before=DIR,after=.  two checkouts beside each other
    python benchmarks/wrong_kernels.py --device cuda --jobs 8 --budget 270

Each version ejects the packages of the models in `_wrong_kernels.py`. Each edit changes a copy of one, and runs
`ctrace kernels edit --once` on it. A wrong kernel that is called correct is a fault, and so is a right one that is not.
What runs into the time limit of this study has no verdict. When the budget ends, the rest is left out, and counted.
"""

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import _wrong_kernels as edits

HERE = Path(__file__).resolve().parent
CALLED_CORRECT, NOT_CORRECT, NO_END, ERROR, UNFIT, LEFT_OUT = (
    "correct", "not correct", "no end", "error", "edit does not fit", "left out",
)  # fmt: skip


@dataclass(frozen=True)
class Version:
    """A checkout of ctrace."""

    name: str
    folder: Path

    @functools.cached_property
    def has_limit(self) -> bool:
        """Whether its `edit` takes a time limit."""
        with tempfile.TemporaryDirectory() as folder:
            return "--timeout" in self.run(["kernels", "edit", "--help"], Path(folder), 200, COLUMNS="200").stdout

    def run(self, words: list[str], where: Path, seconds: float, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command.

        Raises:
            subprocess.TimeoutExpired: it does not end.
        """
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(where / "triton"), **more}
        command = [sys.executable, "-m", "ctrace", *words]
        with subprocess.Popen(
            command, cwd=where, env=environment, stdout=-1, stderr=-1, text=True, start_new_session=True
        ) as child:
            try:
                out, err = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, 9)
                raise
        return subprocess.CompletedProcess(command, child.returncode, out, err)


@dataclass(frozen=True)
class Verdict:
    """What a version says of an edited package."""

    version: str
    edit: edits.Edit
    said: str
    seconds: float
    line: str = ""


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", default=f"this={HERE.parent}", help="NAME=FOLDER, separated by commas")
    parser.add_argument("--device", default="cpu", help="where the models are captured: cpu or cuda")
    parser.add_argument("--only", default="", help="only edits whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=150.0, help="seconds for one check of an edit that ends")
    parser.add_argument("--endless", type=float, default=40.0, help="the same for an edit that does not end")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all of it")
    parser.add_argument("--packages", type=Path, help="keep the ejected packages in this folder, and use those in it")
    parser.add_argument("--out", type=Path, help="write the verdicts as JSON into this file")
    return parser.parse_args()


def ejected(version: Version, name: str, where: Path, device: str) -> Path | None:
    """Eject the kernel of a model; return the package that has it, None if there is none."""
    out = where / version.name / name
    if not out.is_dir():
        words = ["kernels", "eject", "--all", "-o", str(out), "--of", str(HERE / "_wrong_kernels.py")]
        words += ["--build"] if device == "cuda" else ["--target", "h100"]
        words += ["--dynamic"] if name in edits.DYNAMIC else []
        with tempfile.TemporaryDirectory(prefix="wrong-") as scratch:
            done = version.run(words, Path(scratch), 600, CTRACE_BENCH_MODEL=name, CTRACE_BENCH_DEVICE=device)
        if done.returncode:
            print(f"{version.name}: {name} cannot be ejected: {done.stderr[-1500:]}", file=sys.stderr, flush=True)
    return next((each.parent for each in sorted(out.glob("*/kernel.py"))), None)


def edited(package: Path, edit: edits.Edit, where: Path) -> Path | None:
    """Copy a package and edit it; None if the pattern is not in it."""
    copy = where / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / edit.file
    text, number = re.subn(edit.pattern, edit.by, file.read_text(), count=0 if edit.every else 1)
    file.write_text(text)
    return copy if number else None


def judged(
    version: Version, edit: edits.Edit, package: Path | None, device: str, options: argparse.Namespace
) -> Verdict:
    """Say what a version says of an edit."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wrong-") as folder:
        copy = None if package is None else edited(package, edit, Path(folder))
        if copy is None:
            return Verdict(version.name, edit, UNFIT, 0.0)
        words = ["kernels", "edit", str(copy), "--once", "--no-time"]
        own = options.endless / 2 if edit.is_endless else options.limit
        if version.has_limit:
            words += ["--timeout", f"{own:g}"]
        try:
            done = version.run(words, Path(folder), options.endless if edit.is_endless else options.limit + 20)
        except subprocess.TimeoutExpired:
            return Verdict(version.name, edit, NO_END, time.monotonic() - began)
    said = {0: CALLED_CORRECT, 1: NOT_CORRECT}.get(done.returncode, ERROR)
    lines = (done.stdout if done.returncode in (0, 1) else done.stderr).strip().splitlines()
    return Verdict(version.name, edit, said, time.monotonic() - began, lines[0][:300] if lines else "")


def main() -> None:
    """Run the study."""
    options = parsed()
    until = time.monotonic() + options.budget
    versions = [Version(name, Path(folder).resolve()) for name, _, folder in
                (each.partition("=") for each in options.versions.split(","))]  # fmt: skip
    chosen = [each for each in (*edits.WRONG, *edits.RIGHT) if options.only in each.name]
    with tempfile.TemporaryDirectory(prefix="wrong-kernels-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        names = sorted({each.model for each in chosen})
        pairs = [(version, name) for version in versions for name in names]
        where = (options.packages or Path(folder)).resolve()
        packages = pool.map(lambda pair: ejected(pair[0], pair[1], where, options.device), pairs)
        made = dict(zip(pairs, packages, strict=True))

        def job(pair: tuple[Version, edits.Edit]) -> Verdict:
            version, edit = pair
            if time.monotonic() > until:
                return Verdict(version.name, edit, LEFT_OUT, 0.0)
            found = judged(version, edit, made[version, edit.model], options.device, options)
            print(f"{found.seconds:5.1f} s  {version.name}: {edit.name}: {found.said}  {found.line}", flush=True)
            return found

        verdicts = list(pool.map(job, [(version, edit) for edit in chosen for version in versions]))
    report(verdicts)
    if options.out:
        rows = [
            {
                "version": each.version,
                "edit": each.edit.name,
                "is_wrong": each.edit in edits.WRONG,
                "said": each.said,
                "seconds": round(each.seconds, 1),
                "line": each.line,
            }
            for each in verdicts
        ]
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


def report(verdicts: list[Verdict]) -> None:
    """Print the tables."""
    for kind, listed in (("wrong", edits.WRONG), ("right", edits.RIGHT)):
        for version in dict.fromkeys(each.version for each in verdicts):
            of = [each for each in verdicts if each.version == version and each.edit in listed]
            counts = Counter(each.said for each in of)
            print(
                f"{version}: {len(of)} {kind} kernels: " + ", ".join(f"{n} {said}" for said, n in counts.most_common())
            )
            fault = CALLED_CORRECT if kind == "wrong" else NOT_CORRECT
            for each in of:
                if each.said in (fault, NO_END, ERROR, UNFIT):
                    print(f"  {each.said}: {each.edit.name} {each.line}")


if __name__ == "__main__":
    main()
