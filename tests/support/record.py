"""Record the trace logs in tests/data, from the scripts in tests/scripts.

    python tests/support/record.py                                    all scripts
    python tests/support/record.py tests/scripts/print_break.py       one of them
    python tests/support/record.py --torch tests/scripts/print_break.py
    python tests/support/record.py --build tests/scripts/autotuned.py
    python tests/support/record.py --gzip --as net.py tests/scripts/diff/*.py

A script is captured the way `ctrace run` would, or `ctrace explain` for a model file (with the eager backend). With
`--torch`, torch alone writes the log, as TORCH_TRACE has it do in a production job; that one is called NAME.torch.log.

What a log says of the machine is replaced (the script lies in /home/user/project, the environment in /venv), and what
no reader needs is left out: the dumps of torch's configuration, and all but the first record of each kind that ctrace
passes over, with a short payload. Payloads that change get a new checksum.
"""

import argparse
import contextlib
import getpass
import gzip
import hashlib
import json
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
sys.path.insert(0, str(ROOT))

from ctrace.inspector.facts.run_events import Ignored  # noqa: E402
from ctrace.inspector.log.dispatch import decode  # noqa: E402
from ctrace.inspector.log.reader import Broken, parse  # noqa: E402
from ctrace.inspector.runs.capture_request import Options  # noqa: E402
from ctrace.inspector.runs.child import ChildProcess  # noqa: E402
from ctrace.inspector.runs.run_capture import capture  # noqa: E402
from ctrace.inspector.runs.store import Store  # noqa: E402
from ctrace.inspector.runs.target import ModelTarget, resolve  # noqa: E402

SCRIPTS = ROOT / "tests" / "scripts"
DATA = ROOT / "tests" / "data"
HOME = "/home/user"
PROJECT = f"{HOME}/project"
VENV = "/venv"
DUMPS = ("dynamo_config", "inductor_config", "functorch_config", "compiler_config")
Python = Callable[[str, Path, Mapping[str, str]], object]
"""Runs a file in a folder with variables."""
LONGEST = 10
"""Number of lines that stay of an unused payload."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, default=sorted(SCRIPTS.glob("*.py")))
    parser.add_argument("--build", action="store_true", help="build the kernels, and autotune")
    parser.add_argument("--torch", action="store_true", help="record what torch writes by itself")
    parser.add_argument("--as", dest="called", help="call each script this while it runs")
    parser.add_argument("--gzip", action="store_true", help="compress the logs")
    options = parser.parse_args()
    for script in options.scripts:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copy(script, Path(folder).resolve() / (options.called or script.name)))
            log = record_by_torch(copy) if options.torch else record(copy, build=options.build)
            text = neutral(log.read_text(encoding="utf-8"), copy)
        kept = DATA / script.resolve().relative_to(SCRIPTS).with_suffix(".torch.log" if options.torch else ".log")
        kept.parent.mkdir(exist_ok=True)
        if options.gzip:
            kept = kept.with_name(f"{kept.name}.gz")
            kept.write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            kept.write_text(text, encoding="utf-8")
        print(f"wrote {kept.relative_to(ROOT)}, {len(text) / 1000:.0f} kB")


def record(script: Path, *, build: bool = False, child: ChildProcess | None = None) -> Path:
    """Capture a script in its own folder, as the command does, and return the log."""
    store = Store(script.parent / "runs")
    with contextlib.chdir(script.parent):
        target = resolve(script.name)
        tuned = Options(build=True, mode="max-autotune-no-cudagraphs")
        plain = Options(backend="eager") if isinstance(target, ModelTarget) else Options()
        quiet = subprocess.DEVNULL
        capture(target, tuned if build else plain, store=store, stdout=quiet, stderr=quiet, child=child)
    return store.load().log


def _new_python(file: str, folder: Path, variables: Mapping[str, str]) -> object:
    return subprocess.run([sys.executable, file], cwd=folder, env=variables, capture_output=True, check=False)


def record_by_torch(script: Path, python: Python = _new_python) -> Path:
    """Run a script without ctrace, and return the log that torch wrote."""
    folder = script.with_suffix("")
    python(script.name, script.parent, {**os.environ, "TORCH_TRACE": str(folder)})
    (log,) = folder.glob("*.log")
    return log


def neutral(log: str, script: Path) -> str:
    """Rewrite a whole log: other paths, fewer records, right checksums."""
    replacements = paths(script.parent)
    pattern = re.compile("|".join(re.escape(path) for path in replacements))
    text = pattern.sub(lambda match: replacements[match[0]], log)
    # Guards end in a comment with the end of a path, cut off anywhere: `# # mp/tmp1234/script.py:8 in f`.
    text = re.sub(rf"# \S*/{re.escape(script.name)}:", f"# {PROJECT}/{script.name}:", text)
    text = re.sub(rf"{tempfile.gettempdir()}/ctrace-triton-\w+", "/tmp/torchinductor_user/triton", text)
    return "".join(short(records(text)))


def paths(folder: Path) -> dict[str, str]:
    """Map this machine's folders to neutral ones, the longest first."""
    scheme = sysconfig.get_paths()
    version = f"python{sysconfig.get_python_version()}"
    known = {
        **dict.fromkeys(site.getsitepackages(), f"{VENV}/lib/{version}/site-packages"),
        str(folder): PROJECT,
        str(ROOT / "inspector"): f"{VENV}/lib/{version}/site-packages/ctrace/inspector",
        scheme["purelib"]: f"{VENV}/lib/{version}/site-packages",
        scheme["platlib"]: f"{VENV}/lib/{version}/site-packages",
        scheme["platstdlib"]: f"{VENV}/lib/{version}",
        scheme["stdlib"]: f"/usr/lib/{version}",
        f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}": "/tmp/torchinductor_user",
        site.getusersitepackages(): f"{HOME}/.local/lib/{version}/site-packages",
    }
    spelled = {spelling: new for path, new in known.items() for spelling in (path, os.path.realpath(path))}
    return dict(sorted(spelled.items(), key=lambda item: -len(item[0])))


def records(text: str) -> Iterator[list[str]]:
    """Split a log into records: a header, and the lines of its payload."""
    record: list[str] = []
    for line in text.splitlines(keepends=True):
        if record and not line.startswith("\t"):
            yield record
            record = []
        record.append(line)
    if record:
        yield record


def short(found: Iterable[list[str]]) -> Iterator[str]:
    """Shorten unused payloads, and correct the checksums."""
    passed_over: set[str] = set()
    for header, *payload in found:
        (entry,) = parse([checked(header, payload), *payload])
        if isinstance(entry, Broken):
            sys.exit(f"line not understood ({entry.why}): {header}")
        if isinstance(decode(entry), Ignored):
            if entry.kind in passed_over:
                continue
            passed_over.add(entry.kind)
            payload = payload[:LONGEST]
        yield checked(header, payload)
        yield from payload


def checked(header: str, payload: list[str]) -> str:
    """Return a header with the checksum of its payload and without configuration dumps."""
    text = "".join(line[1:] for line in payload).removesuffix("\n")
    prefix, bracket, data = header.partition("] ")
    fields = json.loads(data)
    if "has_payload" in fields:
        fields["has_payload"] = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    metrics = fields.get("compilation_metrics") or fields.get("bwd_compilation_metrics") or {}
    for dump in DUMPS:
        metrics.pop(dump, None)
    return f"{prefix}{bracket}{json.dumps(fields)}\n"


if __name__ == "__main__":
    main()
