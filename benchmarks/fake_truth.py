"""Check that `--fake` shows what a run with real tensors shows: run each model both ways, and compare all records.

Both runs have the same folder, seed of hashes and empty caches. Compared are the log, record by record (graphs of each
stage, guards, bytecode, fusion, kernels, PTX), and `explain --json`; of training steps also `memory --json`, which has
the saved bytes. Left out are times, and what says that values were compared with eager (`NAMED`). Numbers of the
process are replaced: addresses, ids, folders of caches.

A model is a sample of ctrace, a file of truth_models/, or a type of transformers or timm (`_truth_foreign.py`), small
enough to run. Packages are installed outside of the project, as for truth.py:
  PYTHONPATH=LIBS/site-packages python benchmarks/fake_truth.py --write

usage: fake_truth.py [--write] [--keep FOLDER] [--seconds N] [NAME]...
"""

import argparse
import base64
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "fake.md"
Data = dict[str, Any]

TRAIN, TARGET = "--train", "--target=h100"
CASES: dict[str, tuple[str, ...]] = {
    "sample/attention": (TARGET,),
    "sample/attention_training": (TRAIN, TARGET),
    "sample/batch_sizes": (),
    "sample/conv_net": (TRAIN, TARGET),
    "sample/custom_op": (),
    "sample/embedding_loss": (TRAIN,),
    "sample/transformer_stack": (TRAIN,),
    "package/x_transformers_decoder": (),
    "package/vector_quantize_fsq": (),
    "package/diffusers_unet": (TARGET,),
    "package/rotary_embedding_attention": (TRAIN,),
    "transformers/bert": (),
    "transformers/gpt2": (TRAIN,),
    "transformers/llama": (TARGET,),
    "transformers/gemma2": (),
    "transformers/t5": (),
    "transformers/mamba": (),
    "transformers/vit": (TRAIN, TARGET),
    "transformers/whisper": (),
    "transformers/mixtral": (),
    "transformers/qwen3_moe": (TARGET,),
    "timm/resnet18": (TARGET,),
    "timm/convnext_atto": (TRAIN,),
    "timm/mobilenetv3_small_050": (),
    "timm/vit_tiny_patch16_224": (TARGET,),
}
"""The models, each with the options of both runs."""

_TIMES = frozenset(
    ("chromium_event", "compilation_metrics", "bwd_compilation_metrics", "ctrace_codegen", "ctrace_codegen_started")
)
"""Records of times and progress only."""
_WHENEVER = "ctrace_built_code"
"""A record whose head says what was compiled when it was written: kernels of a backward are built beside other work."""
NAMED = {
    "ctrace_start": "the process",
    "ctrace_end": "times, and what the comparison with eager cost",
    "ctrace_model_loaded": "whether it is fake",
    "ctrace_scenario": "nothing is compared with eager",
    "ctrace_eager_call": "nothing is compared with eager",
}
"""Records that differ by design, with the reason."""
_NAMED_IN_REPORTS = ("fake", "dangers", "scenarios", "time", "run", "created")
_SECONDS = re.compile(r"(^|_)(seconds|time|times|us|s|ms|duration|latency|overhead)(_|$)")

_ASIDE = (
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    (re.compile(r"[0-9a-f]{8}(_|-)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}"), "UUID"),
    (re.compile(r"(?:\\n\s*\.b8 \d+[^\\]*)+"), "BYTES"),  # of PTX: debug information, with the file's name
    (re.compile(r"Guard latency = [\d.]+ us"), "Guard latency"),
    (re.compile(r'"describer_id": \d+'), '"describer_id"'),
    (re.compile(r"\b\d{13,19}\b"), "ID"),
    (re.compile(r"(?<=_)\d{13,19}(?=_)"), "ID"),
    (re.compile(r"/[^\s'\"\\]*/(?:ctrace-(?:metal|code|bench)-\w+|torchinductor\w*)[^\s'\"\\]*"), "CACHE"),
)
_HEAD = re.compile(r"[VIWEC]\d{4} [\d:.]+ \d+ [^\]]+\] (\{.*\})")


@dataclass(frozen=True)
class Side:
    """One run of a model: its records by kind, and its reports."""

    records: Counter[tuple[str, str]]
    explain: Data
    memory: Data | None
    seconds: float


@dataclass(frozen=True)
class Row:
    """One model: how much was compared, and what differs."""

    name: str
    options: tuple[str, ...]
    records: int = 0
    graphs: int = 0
    kernels: int = 0
    differences: tuple[str, ...] = ()
    failure: str = ""


class Failed(Exception):  # noqa: N818 - a row of the table
    """A run left nothing to compare."""


def text_of(name: str) -> str:
    """Return the model file of a case."""
    family, _, which = name.partition("/")
    if family == "sample":
        return (HERE.parent / "sample_models" / f"{which}.py").read_text(encoding="utf-8")
    if family == "package":
        return (HERE / "truth_models" / f"{which}.py").read_text(encoding="utf-8")
    return (
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        f"from _truth_foreign import {family}\nmodel, inputs = {family}({which!r})\n"
    )


def run(name: str, folder: Path, options: tuple[str, ...], side: str, seconds: float) -> Side:
    """Run a model one way, in a folder that both ways share."""
    (folder / "model.py").write_text(text_of(name), encoding="utf-8")
    kept = folder / side
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    extra = ("--fake",) if side == "fake" else ()
    began = time.monotonic()
    explain = _command(folder, kept, seconds, "explain", "model.py", "--json", *options, *extra)
    log = next(kept.glob("runs/*/trace.log"), None)
    if log is None:
        raise Failed(f"{side}: no log")
    if not explain["graphs"]:
        raise Failed(f"{side}: no graph, {explain['verdict']}: {(explain['error'] or {}).get('message')}")
    memory = None
    if TRAIN in options:
        memory = _command(folder, kept, seconds, "memory", "model.py", "--json", TRAIN, *extra)
    return Side(records(log), explain, memory, time.monotonic() - began)


def _command(folder: Path, kept: Path, seconds: float, *words: str) -> Data:
    caches = folder / "torchinductor"
    shutil.rmtree(caches, ignore_errors=True)
    environment = {
        **os.environ,
        "CTRACE_DIR": str(kept / "runs"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, "-m", "ctrace", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
        report: Data = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{words[0]}: more than {seconds:g} s") from None
    except ValueError:
        raise Failed(f"{' '.join(words)}: {' '.join(done.stderr.split())[-300:]}") from None
    return report


def records(log: Path) -> Counter[tuple[str, str]]:
    """Return the records of a log, by kind, without what belongs to the process."""
    found: Counter[tuple[str, str]] = Counter()
    names: dict[int, str] = {}
    for head, lines in _entries(log):
        if "str" in head:
            text, number = head["str"]
            names[number] = text
            continue
        artifact = head.get("artifact") or {}
        kind = artifact.get("name") or next(iter(head))
        if kind not in _TIMES and kind not in NAMED:
            described = {key: value for key, value in head.items() if key not in ("has_payload", "artifact")}
            described = {} if kind == _WHENEVER else described
            found[kind, plain(json.dumps(_unfolded(described, names)) + "\n" + _payload(lines))] += 1
    return found


def _entries(log: Path) -> Iterator[tuple[Data, list[str]]]:
    head: Data | None = None
    lines: list[str] = []
    for line in log.read_text(encoding="utf-8").split("\n"):
        match = _HEAD.fullmatch(line)
        if match:
            if head is not None:
                yield head, lines
            head, lines = json.loads(match[1]), []
        elif line.startswith("\t"):
            lines.append(line[1:])
    if head is not None:
        yield head, lines


def _unfolded(value: Any, names: dict[int, str]) -> Any:
    """Replace the numbers of files in stacks by their names: the order in which a process meets files is its own."""
    if isinstance(value, dict):
        return {
            key: names.get(each, each) if key == "filename" and isinstance(each, int) else _unfolded(each, names)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_unfolded(each, names) for each in value]
    return value


def _payload(lines: list[str]) -> str:
    text = "\n".join(lines)
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(without_times(json.loads(text)))
    except ValueError:
        return text


def without_times(value: Any, name: str = "") -> Any:
    """Leave out times, and unpack texts that were stored compressed."""
    if isinstance(value, dict):
        return {key: without_times(each, key) for key, each in value.items() if not _is_time(key, each)}
    if isinstance(value, list):
        return [without_times(each, name) for each in value]
    if name == "cubin":
        return ""  # the assembler's result for the PTX, which is compared; it has the time of the file
    if name in ("ttir", "ttgir", "llir", "ptx") and isinstance(value, str) and value.startswith("eJ"):
        return zlib.decompress(base64.b64decode(value)).decode("latin-1")
    return value


def _is_time(key: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_listed = key in ("seconds", "cached")  # Triton's cache is one of all processes
    return is_listed or (is_number and bool(_SECONDS.search(key)))


def plain(text: str) -> str:
    """Replace what belongs to the process."""
    for pattern, name in _ASIDE:
        text = pattern.sub(name, text)
    return text


def compared(name: str, options: tuple[str, ...], real: Side, fake: Side) -> Row:
    """Compare the two runs of a model."""
    differences = []
    only_real, only_fake = real.records - fake.records, fake.records - real.records
    for kind in dict.fromkeys(kind for kind, _ in (*only_real, *only_fake)):
        sides = [[text for (of, text), _ in each.items() if of == kind] for each in (only_real, only_fake)]
        differences.append(f"{kind}: {_first(*sides)}")
    differences += _of_reports("explain", real.explain, fake.explain)
    if real.memory is not None and fake.memory is not None:
        differences += _of_reports("memory", real.memory, fake.memory)
    count = sum(real.records.values())
    graphs = sum(number for (kind, _), number in real.records.items() if kind.endswith("_graph"))
    return Row(name, options, count, graphs, len(real.explain["kernels"] or ()), tuple(differences))


def _first(real: list[str], fake: list[str]) -> str:
    """Return where the first texts part."""
    if not real or not fake:
        side, texts = ("real", real) if real else ("fake", fake)
        return f"{len(texts)} only in {side}: {texts[0][:200]!r}"
    before, after = real[0], fake[0]
    at = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(0, at - 60)
    return f"{len(real)} and {len(fake)}: {before[begin : at + 100]!r} / {after[begin : at + 100]!r}"


def _of_reports(what: str, real: Data, fake: Data) -> Iterator[str]:
    for key in dict.fromkeys((*real, *fake)):
        if key in _NAMED_IN_REPORTS:
            continue
        sides = [plain(json.dumps(without_times(each.get(key)))) for each in (real, fake)]
        if sides[0] != sides[1]:
            yield f"{what} {key}: {_first(sides[:1], sides[1:])}"


def measured(name: str, keep: Path | None, seconds: float) -> Row:
    """Run a model both ways, and compare."""
    options = CASES[name]
    folder = (keep or Path(tempfile.gettempdir())) / f"fake-truth-{name.replace('/', '-')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        real, fake = (run(name, folder, options, side, seconds) for side in ("real", "fake"))
        return compared(name, options, real, fake)
    except Failed as failed:
        return Row(name, options, failure=str(failed))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def table(rows: list[Row]) -> str:
    """Return the table in Markdown."""
    import torch

    equal = sum(not row.differences and not row.failure for row in rows)
    lines = [
        f"`benchmarks/fake_truth.py`, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{datetime.now(UTC):%Y-%m-%d}. {equal} of {len(rows)} models record the same with and without `--fake`.",
        "",
        "| model | options | records compared | of these graphs | kernels | difference |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        options = " ".join(each.replace("=", " ") for each in row.options)
        what = row.failure or "<br>".join(_cell(each) for each in row.differences) or "none"
        lines.append(f"| {row.name} | {options} | {row.records} | {row.graphs} | {row.kernels} | {what} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]


def replace_part(name: str, text: str) -> None:
    """Put a table into the page of results, between its marks."""
    page = RESULTS.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = page.split(begin)
    RESULTS.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> int:
    """Measure and print; return 1 if a model differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], metavar="NAME")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/fake.md")
    parser.add_argument("--keep", type=Path, help="keep logs and reports in this folder")
    parser.add_argument("--seconds", type=float, default=600, help="how long one command may take")
    asked = parser.parse_args()
    rows = []
    for name in asked.names or CASES:
        began = time.monotonic()
        rows.append(row := measured(name, asked.keep, asked.seconds))
        print(f"{name}: {row.failure or '; '.join(row.differences) or 'equal'} ({time.monotonic() - began:.0f} s)",
              file=sys.stderr, flush=True)  # fmt: skip
    print(table(rows))
    if asked.write:
        replace_part("fake_truth", table(rows))
    return int(any(row.differences or row.failure for row in rows))


if __name__ == "__main__":
    sys.exit(main())
