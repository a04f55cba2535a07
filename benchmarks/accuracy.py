"""Does `ctrace accuracy` name the right kernel and line? One fault at a time in small models, and none in healthy ones.

Each case is one run of the command in a process of its own, which puts in one fault (`_accuracy_faults.py`) and writes
down what it changed; the command knows nothing of it. A fault counts as found if a culprit is a kernel that has the
changed node; its line is right if every culprit has the line of the changed node. Where there is none, plain torch
says whether the fault changes a result at all. `--healthy` runs the same models in three dtypes without a fault; there,
each culprit is a false alarm; `--real` does this with the models of tests/real. With ACCURACY_DEVICE=cuda, the small
models run on a GPU.
`--issues` runs the models of `accuracy_issues/`, which torch.compile computes wrongly by an issue of PyTorch: plain
torch says whether it still does, and the line that the issue or its fix blames has the comment `# blamed`.
`--roundings` runs chains in 16 bits (`_accuracy_chains.py`) whose one rounding in the middle a fused kernel leaves
out, if plain torch says so: a culprit only with `--against eager`. `--bisector` gives the same faults to torch's
`CompilerBisector`.

    .venv/bin/python benchmarks/accuracy.py --cases 40
    .venv/bin/python benchmarks/accuracy.py --healthy
    .venv/bin/python benchmarks/accuracy.py --issues
    .venv/bin/python benchmarks/accuracy.py --roundings --cases 20
    .venv/bin/python benchmarks/accuracy.py --real
    .venv/bin/python benchmarks/accuracy.py --cost --models mlp,conv_bn,attention,statistics,upsampling
    .venv/bin/python benchmarks/accuracy.py --bisector --cases 10
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from _accuracy_runs import Runs

HERE = Path(__file__).resolve().parent
MODELS = HERE / "_accuracy_models.py"
CHAINS = HERE / "_accuracy_chains.py"
REAL = HERE.parent / "tests" / "real" / "models"
ISSUES = HERE / "accuracy_issues"
NAMES = (
    "mlp", "conv_bn", "attention", "layer_norm", "softmax_loss", "rms_rope", "gated", "statistics", "embeddings",
    "residual", "drops", "distances", "gru_cell", "audio_glu", "autoencoder", "upsampling", "routed", "contrastive",
    "graph_sum", "sines",
)  # fmt: skip
KINDS = ("constant", "swap", "mask", "range", "accumulator", "function", "tail", "text")
DTYPES = ("float32", "bfloat16", "float16")
_LINE = re.compile(r'File "[^"]*_accuracy_models\.py", line (\d+)')


def answer(
    runs: Runs, environment: dict[str, str], *options: str, model: Path = MODELS, timeout: float = 400.0
) -> dict[str, Any]:
    """Run the command, and return its JSON; `failed` if there is none."""
    began = time.monotonic()
    try:
        done = runs.command(["accuracy", str(model), "--json", *options], environment, timeout)
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        found = {"failed": f"no answer in {timeout:.0f} s"}
    except ValueError:
        found = {"failed": done.stderr.strip()[-300:]}
    return {**found, "seconds": time.monotonic() - began}


def case(runs: Runs, name: str, kind: str, stage: str, seed: int) -> dict[str, Any] | None:
    """Run one fault; None: the model has no place for it."""
    with tempfile.TemporaryDirectory() as folder:
        oracle = Path(folder) / "oracle.jsonl"
        oracle.touch()
        environment = {"ACCURACY_MODEL": name, "ACCURACY_FAULT": f"{seed}:{kind}:{stage}:{oracle}"}
        found = answer(runs, environment, *(["--train"] if stage == "backward" else []))
        facts = [json.loads(line) for line in oracle.read_text().splitlines()]
    if not facts:
        return None
    effect = effect_of(runs, name, kind, stage, seed) if not found.get("culprits") else None
    chosen, kernels = facts[0], {each["kernel"] for each in facts if "kernel" in each}
    lines = [int(line) for line in _LINE.findall(chosen.get("stack") or "")]
    culprits = found.get("culprits", [])
    named = {each["name"] for each in culprits}
    return {
        "model": name, "kind": kind, "stage": stage, "seed": seed,
        "op": chosen.get("op") or chosen.get("text"),
        "line": lines[-1] if lines else None,
        "lines": [each["line"] for each in culprits],
        "ops": [each["ops"][:3] for each in culprits],
        "kernel": bool(named & kernels),
        "innocent": sorted(named - kernels) if kernels else [],
        "right_line": bool(culprits) and bool(lines) and {each["line"] for each in culprits} == {lines[-1]},
        "equal": found.get("equal"), "result": found.get("result"), "reason": [each["reason"] for each in culprits],
        "runs": found.get("compiled_runs"), "pieces": found.get("pieces"),
        "seconds": round(found["seconds"], 1), "failed": found.get("failed"),
        "kernel_known": bool(kernels), "effect": effect,
    }  # fmt: skip


def effect_of(runs: Runs, name: str, kind: str, stage: str, seed: int) -> float | None:
    """Return the largest error that plain compiled code has with a fault and not without; None: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        fault = {"ACCURACY_FAULT": f"{seed}:{kind}:{stage}:{folder}/oracle.jsonl"}
        errors: list[list[float]] = []
        for environment in (fault, {}):
            words = [str(HERE / "_accuracy_effect.py"), stage]
            done = runs.program(words, {"ACCURACY_MODEL": name, **environment}, 400.0)
            if done.returncode:
                return None
            errors.append(json.loads(done.stdout))
    found: list[float] = [faulty - healthy for faulty, healthy in zip(*errors, strict=True)]
    return max(found)


def drawn(seed: int, kinds: tuple[str, ...], names: tuple[str, ...]) -> Iterator[tuple[str, str, str, int]]:
    """Yield faults without end: the model, the kind, the stage and the seed of each."""
    draw = random.Random(seed)
    while True:
        stage = draw.choice(("forward", "forward", "backward"))
        yield draw.choice(names), draw.choice(kinds), stage, draw.randrange(10**6)


def faults(runs: Runs, options: argparse.Namespace, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Run faults until there are enough; those that a model has no place for are drawn again."""
    planned = drawn(options.seed, kinds, names)
    done = 0
    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        while done < options.cases:
            batch = list(islice(planned, max(options.jobs, options.cases - done)))
            for found in as_done(pool, [partial(case, runs, *each) for each in batch]):
                if found is not None and done < options.cases:
                    done += 1
                    file.write(json.dumps(found) + "\n")
                    file.flush()
                    print(done, found, flush=True)


def as_done(pool: ThreadPoolExecutor, work: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """Yield results as they come."""
    for future in as_completed([pool.submit(each) for each in work]):
        yield future.result()


def roundings(runs: Runs, options: argparse.Namespace) -> None:
    """Ask about chains with one lost rounding, with `--against eager` and without."""
    import _accuracy_chains

    places = _accuracy_chains.places()
    random.Random(options.seed).shuffle(places)
    chosen = list(islice((each for each in places if _accuracy_chains.is_left_out(each)), options.cases))

    def one(place: str) -> dict[str, Any]:
        environment = {"ACCURACY_CHAIN": place}
        plain = answer(runs, environment, model=CHAINS)
        strict = answer(runs, environment, "--against", "eager", model=CHAINS)
        culprits = strict.get("culprits", [])
        return {
            "place": place, "line": _accuracy_chains.rounded_line(place),
            "plain": [each["line"] for each in plain.get("culprits", [])], "plain_result": plain.get("result"),
            "lines": [each["line"] for each in culprits], "reason": [each["reason"] for each in culprits],
            "remedy_error": [each["remedy_error"] for each in culprits],
            "failed": plain.get("failed") or strict.get("failed"),
        }  # fmt: skip

    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        for row in as_done(pool, [partial(one, each) for each in chosen]):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row, flush=True)


def bisector_answer(
    runs: Runs, words: list[str], environment: dict[str, str], timeout: float = 900.0
) -> dict[str, Any]:
    """Run the bisector, and return its answer."""
    try:
        done = runs.program(words, environment, timeout)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"failed": f"no answer in {timeout:.0f} s"}
    except (ValueError, IndexError):
        found = {"failed": done.stderr.strip()[-300:]}
    return found


def cost(options: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Measure CPU seconds and the peak memory of the largest process, beside those of `explain --build`."""
    with options.out.open("a") as file:
        for name in names:
            row: dict[str, Any] = {"model": name}
            for command in (("accuracy",), ("explain", "--build")):
                words = [sys.executable, "-m", "ctrace", *command, str(MODELS), "--train", "--json"]
                environment = {**os.environ, "ACCURACY_MODEL": name}
                with subprocess.Popen(
                    words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                ) as process:
                    _, status, used = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                row[command[0]] = {
                    "cpu_seconds": round(used.ru_utime + used.ru_stime, 1), "mib": used.ru_maxrss // 1024,
                    "code": process.returncode,
                }  # fmt: skip
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row, flush=True)


def children_seconds() -> float:
    """Return the CPU seconds of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def bisected(runs: Runs, options: argparse.Namespace, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Run torch's bisector and the command on the same faults, for a table of both; CPU seconds need one job."""

    def one(name: str, kind: str, stage: str, seed: int) -> dict[str, Any] | None:
        began = children_seconds()
        found = case(runs, name, kind, stage, seed)
        ended = children_seconds()
        if found is None or not found["lines"]:
            return None
        with tempfile.TemporaryDirectory() as folder:
            oracle = Path(folder) / "oracle.jsonl"
            oracle.touch()
            environment = {"ACCURACY_MODEL": name, "ACCURACY_FAULT": f"{seed}:{kind}:{stage}:{oracle}"}
            answered = bisector_answer(runs, [str(HERE / "_accuracy_bisector.py"), stage], environment)
        seconds = {"cpu_seconds": ended - began, "bisector_cpu_seconds": children_seconds() - ended}
        return {**found, "bisector": answered, **seconds}

    planned = drawn(options.seed, kinds, names)
    done = 0
    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        while done < options.cases:
            for row in as_done(pool, [partial(one, *each) for each in islice(planned, options.jobs)]):
                if row is not None and done < options.cases:
                    done += 1
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    print(row, flush=True)


_SHOWN = ("equal", "result", "compared", "culprits", "failed")
_KEPT = ("equal", "result", "compared", "kernels", "culprits", "not_compared", "seconds", "failed")


def healthy(runs: Runs, options: argparse.Namespace, names: tuple[str, ...], dtypes: tuple[str, ...]) -> None:
    def one(name: str, dtype: str) -> dict[str, Any]:
        found = answer(runs, {"ACCURACY_MODEL": name, "ACCURACY_DTYPE": dtype}, "--train")
        return {"model": name, "dtype": dtype, **{key: found.get(key) for key in _KEPT}}

    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        for row in as_done(pool, [partial(one, name, dtype) for name in names for dtype in dtypes]):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(*(row[key] for key in ("model", "dtype", *_SHOWN)), flush=True)


def real(runs: Runs, options: argparse.Namespace, dtypes: tuple[str, ...]) -> None:
    """Run the models of tests/real, forward only: as they are for float32, and under autocast for the other dtypes.

    Programs that name another backend run with Inductor.
    """

    def one(path: Path, dtype: str) -> dict[str, Any]:
        if dtype == "float32":
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / path.name
                copy.write_text(path.read_text().replace('backend="eager"', 'backend="inductor"'))
                found = answer(runs, {}, model=copy)
        else:
            environment = {"ACCURACY_REAL": str(path), "ACCURACY_DTYPE": dtype}
            found = answer(runs, environment, model=HERE / "_accuracy_real.py")
        return {"model": path.stem, "dtype": dtype, **{key: found.get(key) for key in _KEPT}}

    paths = sorted(REAL.glob("*.py"))
    paths = [each for each in paths if not options.only or each.stem in options.only.split(",")]
    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        for row in as_done(pool, [partial(one, path, dtype) for path in paths for dtype in dtypes]):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(*(row[key] for key in ("model", "dtype", *_SHOWN)), flush=True)


def issue(runs: Runs, path: Path) -> dict[str, Any]:
    """Check one model in plain torch, and with the command if it is wrong there."""
    text = path.read_text()
    blamed = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# blamed")]
    done = runs.program([str(HERE / "_accuracy_issues.py"), str(path)], {}, 400.0)
    plain = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-200:]}
    row = {"issue": path.stem.partition("_")[2], "blamed": blamed, "plain": plain}
    if not plain.get("differences"):
        return row
    found = answer(runs, {}, *(["--train"] if "\nTRAIN = True\n" in text else []), model=path)
    return {**row, **{key: found.get(key) for key in (*_KEPT, "first_nonfinite")}}


def issues(runs: Runs, out: Path, only: list[str]) -> None:
    paths = [each for each in sorted(ISSUES.glob("*_*.py")) if not only or each.stem.partition("_")[2] in only]
    with out.open("a") as file:
        for path in paths:
            row = issue(runs, path)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(issue_line(row), flush=True)


def issue_line(row: dict[str, Any]) -> str:
    """Return a line of the table: how it is wrong in plain torch, and what the command says."""
    apart = row["plain"].get("differences", [])
    worst = max(apart, key=lambda each: (each["error"] is None, each["error"] or 0.0), default=None)
    if worst is None:
        return f"| {row['issue']} | {row['plain'].get('torch')} | no | {row['plain'].get('failed', '')} |"
    size = worst["how"] if worst["error"] is None else f"{worst['error']:.3g} beside {worst['eager_error']:.3g}"
    named = row["culprits"] or []
    lines = sorted({each["line"] for each in named if each["line"] is not None})
    right = "yes" if set(lines) & set(row["blamed"]) else "other" if lines else "none"
    first = (
        named[0] if named else {"kind": "", "name": row.get("failed") or str(row["result"]), "ops": [], "reason": ""}
    )
    what = f"{first['kind']} {first['name']}: {', '.join(first['ops'][:3])}"
    cells = (row["issue"], row["plain"]["torch"], f"{worst['place']}: {size}", row["blamed"], lines, right, what)
    return "| " + " | ".join(map(str, (*cells, first["reason"] or "-"))) + " |"


NOTHING = 1e-6
"""The largest relative error of a fault that changes nothing: rounding in float32."""


def changes_nothing(row: dict[str, Any]) -> bool:
    """Whether plain compiled code is as close to eager with the fault as without, on the inputs of the command."""
    return not row["lines"] and row["effect"] is not None and row["effect"] < NOTHING


def table(rows: list[dict[str, Any]]) -> str:
    """Count the faults by kind."""
    lines = [
        "| fault | ran | changes nothing | kernel right | line right | an innocent kernel named |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all but text"):
        own = [each for each in rows if each["kind"] == kind or (kind == "all but text" and each["kind"] != "text")]
        if own:
            real = [each for each in own if not changes_nothing(each)]
            sums = Counter({key: sum(bool(each[key]) for each in real) for key in ("kernel", "right_line", "innocent")})
            known = sum(each["kernel_known"] for each in real)
            line = "-" if kind == "text" else f"{sums['right_line']} of {len(real)}"
            cells = (kind, len(own), len(own) - len(real), f"{sums['kernel']} of {known}", line, sums["innocent"])
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--roundings", action="store_true")
    parser.add_argument("--cost", action="store_true", help="beside `explain --build`")
    parser.add_argument("--real", action="store_true", help="the models of tests/real, with no fault")
    parser.add_argument("--only", default="", help="these models of tests/real")
    parser.add_argument("--bisector", action="store_true")
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="of healthy models; tf32, too, on a GPU")
    parser.add_argument("--issues", nargs="*", metavar="NUMBER", help="all, or those with these numbers")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "accuracy.jsonl")
    parser.add_argument("--fresh", action="store_true", help="a new process for each case, not a fork")
    parser.add_argument("--cache", type=Path, help="where built C++ code is kept between studies")
    options = parser.parse_args()
    names, kinds = tuple(options.models.split(",")), tuple(options.kinds.split(","))
    if options.cost:
        cost(options, names)
        return
    with tempfile.TemporaryDirectory() as cache:
        runs = Runs(options.cache or Path(cache), fresh=options.fresh)
        try:
            answered(runs, options, kinds, names)
        finally:
            runs.close()


def answered(runs: Runs, options: argparse.Namespace, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Run the study that the options name."""
    if options.healthy:
        healthy(runs, options, names, tuple(options.dtypes.split(",")))
    elif options.real:
        real(runs, options, tuple(options.dtypes.split(",")))
    elif options.issues is not None:
        issues(runs, options.out, options.issues)
    elif options.roundings:
        roundings(runs, options)
    elif options.bisector:
        bisected(runs, options, kinds, names)
    else:
        faults(runs, options, kinds, names)
        print(table([json.loads(line) for line in options.out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
