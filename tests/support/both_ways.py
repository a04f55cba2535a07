"""Record one program twice, with ctrace and with torch alone, and compare what the two logs say.

    python tests/support/both_ways.py FILE...     record programs both ways and print what differs; exit 1 if anything does

A value that only torch's log lacks (None there) is not a difference: ctrace says that it is not in the log.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.emitted_code import with_torchs_kernels
from ctrace.inspector.runs.load import load_log
from tests.support.record import record, record_by_torch
from tests.support.warm import WarmServer


def facts(session: Session) -> dict[str, Any]:
    """Return what both logs must agree on, in torch's order."""
    return {
        "breaks": [(each.line, each.function, str(each.owner), each.gb, each.compilations) for each in session.breaks],
        "skips": sorted(
            (each.function, each.line)
            for each in session.skips
            # Torch writes no entry for these; and an error that the program got is a failure in ctrace's own log.
            if each.rule not in ("generator", "dispatch_mode", "no_ops", "no_tensor", "thrown")
        ),
        "compilations": [(c.id, c.function, c.line, c.guards, c.attempts, c.fail_type) for c in session.compilations],
        "graphs": [(each.id, each.function, each.line, each.ops) for each in session.graphs],
        "limit": (session.limit.hit, [(each.function, each.used) for each in session.limit.functions]),
        "kernels": sorted((each.graph, str(each.stage), each.name, each.language) for each in session.kernels),
    }


def differences(ours: Session, torchs: Session) -> Iterator[str]:
    """Yield what torch's log says otherwise than ctrace's log of the same program."""
    torchs, unparsed = with_torchs_kernels(torchs)
    yield from unparsed
    expected, found = facts(ours), facts(torchs)
    for name in expected:
        if expected[name] != found[name]:
            yield f"{name}: {found[name]} instead of {expected[name]}"
    ids = [[each.compilation for each in session.recompiles] for session in (ours, torchs)]
    if ids[0] != ids[1]:
        yield f"recompiles: {ids[1]} instead of {ids[0]}"
        return
    for mine, theirs in zip(ours.recompiles, torchs.recompiles, strict=True):
        if not _agrees(mine, theirs):
            yield f"causes of {mine.compilation}: {theirs.causes[:3]} instead of {mine.causes[:3]}"


def _agrees(ours: Recompile, torchs: Recompile) -> bool:
    """Whether torch's first failed guard is among ctrace's, with the values that torch logs."""
    return len(torchs.causes) == 1 and any(
        one.kind is cause.kind
        and one.subject == cause.subject
        and one.line == cause.line
        and cause.was in (one.was, None)
        and (cause.now in (one.now, None) or cause.now.endswith(" or more"))
        for cause in torchs.causes
        for one in ours.causes
    )


def both(script: Path, folder: Path, server: WarmServer | None = None) -> tuple[Session, Session]:
    """Run a program with ctrace and with torch's log, in a folder of this test; return the two sessions."""
    copy = Path(shutil.copy(script, folder))
    if server is None:
        return load_log(record(copy)), load_log(record_by_torch(copy))
    return load_log(record(copy, child=server.child())), load_log(record_by_torch(copy, server.python))


def main() -> int:
    count = 0
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = list(differences(*both(Path(name), Path(folder).resolve())))
            except (CtraceError, ValueError) as error:
                found = [f"cannot be compared: {error}"]
        print(f"{'FAIL' if found else 'ok  '} {Path(name).name}", *found, sep="\n     ", flush=True)
        count += bool(found)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
