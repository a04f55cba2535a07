"""Check reproducers without the reducer: make them, run each in plain Python, and read torch's own log.

usage: repro.py [--out DIR] [--budget 60s] [-k SUBSTRING] TARGET...

For each target, `ctrace repro TARGET -o FILE --json` makes a program. It then runs as `python FILE` with TORCH_LOGS=
graph_breaks,recompiles, once compiled and once with torch.compile switched off. The table has the lines, tries and
seconds, and whether torch itself names the same gb id or guard kind, or raises the same exception; plain Python must
run the program without an error when nothing is compiled.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# What torch writes for a failed guard, by the kind of cause that ctrace reports; read from torch 2.13.
GUARDS = {
    "size": r"size mismatch|\.size\(\)|size\[|rank mismatch",
    "zero_one": r"size mismatch|\.size\(\)|[01] (?:<=|==|!=)",
    "duck_shape": r"\.size\(\)",
    "stride": r"stride mismatch",
    "dtype": r"dtype mismatch",
    "requires_grad": r"requires_grad",
    "training_mode": r"\.training",
    "attribute_value": r"\.\w+ == ",
    "argument_value": r"L\['\w+'\]|\w+ == ",
    "global_value": r"G\['\w+'\]|\w+ == ",
    "closure_value": r"\w+ == ",
    "break_result": r" == ",
    "length": r"len\(",
    "autocast": r"autocast",
    "global_state": r"GLOBAL_STATE|num_threads",
    "type": r"type",
    "none": r"None",
}


EAGER = "import runpy, torch; torch.compiler.set_stance('force_eager'); runpy.run_path('repro.py', run_name='__main__')"


def run(file: Path, *, eager: bool = False) -> tuple[int, str]:
    """Run a program in an empty folder, with torch's own log or without torch.compile."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "CTRACE"))}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "repro.py").write_bytes(file.read_bytes())
        done = subprocess.run(
            [sys.executable, *(["-c", EAGER] if eager else ["repro.py"])],
            cwd=folder,
            env=environment if eager else environment | {"TORCH_LOGS": "graph_breaks,recompiles"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    return done.returncode, done.stdout + done.stderr


def problems(report: dict[str, Any], file: Path) -> list[str]:
    """List why a program is no reproducer of the finding in the report; empty: it is one."""
    finding, text = report["finding"], file.read_text()
    found = []
    if "ctrace" in text:
        found.append("it needs ctrace")
    if re.search(r"(?<![\w.])/(?:home|root|work|tmp|Users)/", text):
        found.append("it has a path of this machine")
    found += unseen(finding, *run(file))
    status, output = run(file, eager=True)
    if status:
        last = output.strip().splitlines()[-1:] or [""]
        found.append(f"it fails in eager: {last[0][:80]}")
    return found


def unseen(finding: dict[str, Any], status: int, output: str) -> list[str]:
    """Say what torch writes in the place of the finding; empty: it names the finding."""
    ids = set(finding["ids"])
    match finding["what"]:
        case "break":
            shown = {f"GB{number}" for number in re.findall(r"gb(\d{4})\.html", output)}
            is_there, instead = bool(set(finding["ids"][:1]) & shown), sorted(shown)
        case "recompile":
            instead = re.findall(r"- \d+/\d+: (.*)", output)
            is_there = any(re.search(GUARDS.get(kind, "."), each) for kind in ids for each in instead)
        case "skip":
            counts = dict(re.findall(r"'(total|ok)': (\d+)", output))
            is_there, instead = int(counts.get("ok", 0)) < int(counts.get("total", 0)), [str(counts)]
        case _:
            is_there, instead = status != 0 and any(each in output for each in ids), [f"exit code {status}"]
    return [] if is_there else [f"torch shows {instead[:3]}, not {sorted(ids)}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/repro"))
    parser.add_argument("--budget", default="60s")
    parser.add_argument("-k", default="")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    short = right = 0
    rows = []
    print(f"{'target':28} {'finding':26} {'lines':>9} {'tries':>6} {'s':>5}  result", flush=True)
    for target in [each for each in args.targets if args.k in str(each)]:
        began = time.monotonic()
        command = [sys.executable, "-m", "ctrace", "repro", str(target), "--json", "--budget", args.budget]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        try:
            report = json.loads(done.stdout)
        except ValueError:
            said = [each for each in done.stderr.splitlines() if each.startswith("ctrace: ")] or ["nothing"]
            rows.append((target.stem, "-", "-", "-", seconds, said[-1]))
        else:
            file = args.out / f"{target.stem}.py"
            file.write_text(report["program"])
            file.with_suffix(".json").write_text(done.stdout)
            wrong = problems(report, file)
            wrong += [] if report["verified"] else ["ctrace itself did not verify it"]
            right += not wrong
            short += report["lines"] <= 30
            lines = f"{report['lines_before']}->{report['lines']}"
            name = " ".join([report["finding"]["what"], *report["finding"]["ids"]])
            rows.append((target.stem, name, lines, report["tries"], seconds, "; ".join(wrong) or "same"))
        name, what, lines, tries, seconds, result = rows[-1]
        print(f"{name:28} {what:26.26} {lines:>9} {tries:>6} {seconds:5.0f}  {result}", flush=True)
    print(f"{len(rows)} findings: {right} show the same id or cause in plain Python, {short} have at most 30 lines")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
