"""Does `ctrace upgrade` find what was planted between two environments, and nothing between equal ones?

Each case makes two environments with hard links to this environment's torch, and edits one of them
(`_planted_upgrades.py`); the command knows nothing of it. A change counts as attributed if the kind of its
reason and the name or the place in it are those of the edit. Nothing is downloaded.

    .venv/bin/python benchmarks/upgrade.py                       all planted changes, and the equal pair
    .venv/bin/python benchmarks/upgrade.py graph-break equal     some of them
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _planted_upgrades import EQUAL, PLANTED, Planted, make_pair

CASES = {each.name: each for each in (*PLANTED, EQUAL)}


def case(planted: Planted) -> dict[str, Any]:
    """Run one case, and count what was found."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        before, after = make_pair(folder, planted, idle=planted is not EQUAL)
        (folder / "model.py").write_text(planted.model)
        words = ["--python", str(before), "--python", str(after), "model.py", "--json"]
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "ctrace", "upgrade", *words],
            cwd=folder,
            env={**os.environ, **planted.variables},
            capture_output=True,
            text=True,
            check=False,
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        return {"name": planted.name, "failed": done.stderr.strip()[-300:]}
    data = json.loads(done.stdout)
    (model,) = data["models"]
    changes = model["changes"]
    return {
        "name": planted.name,
        "what": planted.what,
        "kind": planted.kind,
        "cause": planted.cause,
        "found": any(each["what"] == planted.what for each in changes) or planted is EQUAL,
        "changes": len(changes),
        "attributed": sum(_is_attributed(each["reason"], planted) for each in changes),
        "equal": data["equal"],
        "runs": model["trials"],
        "cpu": round(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime),
        "all": changes,
    }


def _is_attributed(reason: dict[str, Any], planted: Planted) -> bool:
    return reason["kind"] == planted.kind and planted.cause in f"{reason['name']} {reason['source']}"


def planted_line(row: dict[str, Any]) -> str:
    """Return a line of the table of planted changes."""
    if "failed" in row:
        return f"| {row['name']} | failed: {row['failed']} | | | |"
    found = "yes" if row["found"] else "no"
    cause = f"{row['kind']}: `{row['cause']}`" if row["kind"] else "none"
    return f"| {row['name']} | {cause} | {found} | {row['attributed']} of {row['changes']} | {row['runs']} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append each row as JSON")
    words = parser.parse_args()
    print("| planted | reason | found | changes attributed | further runs |\n|---|---|---|---|---|", flush=True)
    for name in words.cases or CASES:
        row = case(CASES[name])
        print(planted_line(row), flush=True)
        if words.out:
            with words.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
