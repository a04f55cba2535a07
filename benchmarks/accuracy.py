"""Does `ctrace accuracy` name the right kernel and line? One fault at a time in small models, and none in healthy ones.

Each case is one run of the command in a process of its own, which puts in one fault (`_accuracy_faults.py`) and writes
down what it changed; the command knows nothing of it. A fault counts as found if a culprit is a kernel that has the
changed node; its line is right if every culprit has the line of the changed node. `--healthy` runs the same models in
three dtypes without a fault; there, each culprit is a false alarm. With ACCURACY_DEVICE=cuda, both run on a GPU.
`--issues` runs the models of `accuracy_issues/`, which torch.compile computes wrongly by an issue of PyTorch: plain
torch says whether it still does, and the line that the issue or its fix blames has the comment `# blamed`.

    .venv/bin/python benchmarks/accuracy.py --cases 40
    .venv/bin/python benchmarks/accuracy.py --healthy
    .venv/bin/python benchmarks/accuracy.py --issues
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
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = HERE / "_accuracy_models.py"
ISSUES = HERE / "accuracy_issues"
NAMES = (
    "mlp", "conv_bn", "attention", "layer_norm", "softmax_loss", "rms_rope", "gated", "statistics", "embeddings",
    "residual", "drops", "distances",
)  # fmt: skip
KINDS = ("constant", "swap", "mask", "range", "accumulator", "function", "tail", "text")
DTYPES = ("float32", "bfloat16", "float16")
_LINE = re.compile(r'File "[^"]*_accuracy_models\.py", line (\d+)')


def answer(environment: dict[str, str], *options: str, model: Path = MODELS, timeout: float = 400.0) -> dict[str, Any]:
    """Run the command, and return its JSON; `failed` if there is none."""
    words = [str(Path(sys.executable).parent / "ctrace"), "accuracy", str(model), "--json", *options]
    began = time.monotonic()
    try:
        done = subprocess.run(
            words, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=timeout
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        found = {"failed": f"no answer in {timeout:.0f} s"}
    except ValueError:
        found = {"failed": done.stderr.strip()[-300:]}
    return {**found, "seconds": time.monotonic() - began}


def case(name: str, kind: str, stage: str, seed: int) -> dict[str, Any] | None:
    """Run one fault; None: the model has no place for it."""
    with tempfile.TemporaryDirectory() as folder:
        oracle = Path(folder) / "oracle.jsonl"
        oracle.touch()
        environment = {"ACCURACY_MODEL": name, "ACCURACY_FAULT": f"{seed}:{kind}:{stage}:{oracle}"}
        found = answer(environment, *(["--train"] if stage == "backward" else []))
        facts = [json.loads(line) for line in oracle.read_text().splitlines()]
    if not facts:
        return None
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
        "kernel_known": bool(kernels),
    }  # fmt: skip


def faults(cases: int, seed: int, out: Path, kinds: tuple[str, ...], names: tuple[str, ...]) -> None:
    draw = random.Random(seed)
    done = 0
    with out.open("a") as file:
        while done < cases:
            model, kind, stage = draw.choice(names), draw.choice(kinds), draw.choice(("forward", "forward", "backward"))
            found = case(model, kind, stage, draw.randrange(10**6))
            if found is None:
                continue
            done += 1
            file.write(json.dumps(found) + "\n")
            file.flush()
            print(done, found, flush=True)


_KEPT = ("equal", "result", "compared", "kernels", "culprits", "not_compared", "seconds", "failed")


def healthy(out: Path, names: tuple[str, ...], dtypes: tuple[str, ...]) -> None:
    with out.open("a") as file:
        for name in names:
            for dtype in dtypes:
                found = answer({"ACCURACY_MODEL": name, "ACCURACY_DTYPE": dtype}, "--train")
                row = {"model": name, "dtype": dtype, **{key: found.get(key) for key in _KEPT}}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(name, dtype, row["equal"], row["result"], row["compared"], row["culprits"], row["failed"])


def issue(path: Path) -> dict[str, Any]:
    """Check one model in plain torch, and with the command if it is wrong there."""
    text = path.read_text()
    blamed = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# blamed")]
    words = [sys.executable, str(HERE / "_accuracy_issues.py"), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    plain = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-200:]}
    row = {"issue": path.stem.partition("_")[2], "blamed": blamed, "plain": plain}
    if not plain.get("differences"):
        return row
    found = answer({}, *(["--train"] if "\nTRAIN = True\n" in text else []), model=path)
    return {**row, **{key: found.get(key) for key in (*_KEPT, "first_nonfinite")}}


def issues(out: Path, only: list[str]) -> None:
    paths = [each for each in sorted(ISSUES.glob("*_*.py")) if not only or each.stem.partition("_")[2] in only]
    with out.open("a") as file:
        for path in paths:
            row = issue(path)
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


def table(rows: list[dict[str, Any]]) -> str:
    """Count the faults by kind."""
    lines = ["| fault | ran | kernel right | line right | an innocent kernel named |", "|---|---|---|---|---|"]
    for kind in (*KINDS, "all but text"):
        own = [each for each in rows if each["kind"] == kind or (kind == "all but text" and each["kind"] != "text")]
        if own:
            sums = Counter({key: sum(bool(each[key]) for each in own) for key in ("kernel", "right_line", "innocent")})
            known = sum(each["kernel_known"] for each in own)
            line = "-" if kind == "text" else sums["right_line"]
            lines.append(f"| {kind} | {len(own)} | {sums['kernel']} of {known} | {line} | {sums['innocent']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="of healthy models; tf32, too, on a GPU")
    parser.add_argument("--issues", nargs="*", metavar="NUMBER", help="all, or those with these numbers")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "accuracy.jsonl")
    options = parser.parse_args()
    names = tuple(options.models.split(","))
    if options.healthy:
        healthy(options.out, names, tuple(options.dtypes.split(",")))
        return
    if options.issues is not None:
        issues(options.out, options.issues)
        return
    faults(options.cases, options.seed, options.out, tuple(options.kinds.split(",")), names)
    print(table([json.loads(line) for line in options.out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
