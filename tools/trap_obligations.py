"""Try the traps of each obligation: that it alone refuses them, and that an oracle tells the two programs apart.

    python tools/trap_obligations.py [--only OBLIGATION] [--jsonl FILE]    a file that is there already is continued
    python tools/trap_obligations.py --classes [--jsonl FILE]              what false proofs came from, instead

A trap counts if the oracle of trap_oracle.py sees a difference, so that without its obligation a false proof would get
through, and no other obligation is open. The oracle sees neither times nor compiled calls: traps of these two count by
the proof alone. Prints a table; exit 1: an obligation has fewer than ten traps.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from traps import differences

from ctrace.inspector.features.fix.repairs.obligations import COMPILED, COST, NAMES
from ctrace.inspector.features.fix.repairs.trial_runs import new_server
from ctrace.inspector.runs.fork_client import ForkServer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.obligation_traps import ObligationTrap, class_traps, obligation_traps
from tests.support.proofs import outcome_of

_ENOUGH = 10


def tried(trap: ObligationTrap, folder: Path, server: ForkServer) -> dict[str, Any]:
    """Try a trap, and say what refuses it."""
    before, after = folder / "before.py", folder / "after.py"
    before.write_text(trap.before)
    after.write_text(trap.after)
    outcome = outcome_of(before, trap.after, server)
    graphs = [each.detail for each in outcome.checks if not each.passed] if not outcome.obligations else []
    left = [each for each in outcome.obligations if not each.closed]
    return {
        "trap": trap.id,
        "obligation": trap.obligation,
        "open": [each.name for each in left],
        "details": [each.detail for each in left],
        "why": graphs,
        "acts": differences(before, after),
        "free": outcome.proved and not outcome.questions,
    }


def is_alone(about: dict[str, Any]) -> bool:
    """Whether a trap's obligation alone refuses it; compiled calls are not tried where eager ones differ."""
    name = about["obligation"]
    found = set(about["open"]) - ({COMPILED} if name != COMPILED else set())
    return found == {name} and (bool(about["acts"]) or name in (COST, COMPILED)) and not about["free"]


def main() -> int:
    """Try the traps, and print how many each obligation has for itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--jsonl", type=Path, help="append one line for each trap; skip those that it has")
    parser.add_argument("--classes", action="store_true", help="try the traps of classes: none may be proved")
    asked = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    if asked.jsonl is not None and asked.jsonl.exists():
        found = {each["trap"]: each for each in map(json.loads, asked.jsonl.read_text().splitlines())}
    server = new_server()
    folder = Path(tempfile.mkdtemp(prefix="traps-"))
    for trap in class_traps() if asked.classes else obligation_traps():
        if trap.id in found or asked.only not in (None, trap.obligation):
            continue
        about = found[trap.id] = tried(trap, folder, server)
        if about["free"]:
            print(f"FALSE PROOF: {trap.id}: acts {about['acts']}", flush=True)
        if not (asked.classes or is_alone(about)):
            print(f"NOT ALONE: {trap.id}: open {about['open']} {about['details']}, acts {about['acts']}", flush=True)
        if asked.jsonl is not None:
            with asked.jsonl.open("a", encoding="utf-8") as log:
                log.write(json.dumps(about) + "\n")
    server.close()
    false = sum(each["free"] for each in found.values())
    print(f"{false} false proofs of {len(found)} traps")
    if asked.classes:
        return int(false > 0)
    numbers = Counter(each["obligation"] for each in found.values() if is_alone(each))
    for name in NAMES:
        print(f"{numbers[name]:5} that {name} alone refuses")
    wanted = NAMES if asked.only is None else (asked.only,)
    return int(false > 0 or any(numbers[name] < _ENOUGH for name in wanted))


if __name__ == "__main__":
    sys.exit(main())
