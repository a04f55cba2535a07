"""Prove a change of a file as `ctrace fix` proves one of its own."""

from collections import Counter
from pathlib import Path

from ctrace.inspector.facts.trial import Mined, NewText, Trial
from ctrace.inspector.features.fix.repairs.candidates import conditions_of
from ctrace.inspector.features.fix.repairs.mining import mined, writers
from ctrace.inspector.features.fix.repairs.proving import ChangeToProve, Prover, keys_of, trial_with
from ctrace.inspector.features.fix.repairs.repair_result import ProofOutcome
from ctrace.inspector.features.fix.repairs.trial_runs import FailedTrialError, Runner, SearchBudget
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.target import resolve

_SECONDS = 120.0


def outcome_of(before: Path, after: str, server: ForkServer, *, reads: bool = True) -> ProofOutcome:
    """Prove a change of a program.

    Args:
        before: the program.
        after: its changed text.
        server: forks the runs.
        reads: whether to read what the code compares with, and who else writes what the change stores.

    Raises:
        FailedTrialError: the program cannot be run or observed, or differs between two runs.
    """
    file, text = str(before), before.read_text()
    others = writers(file, text, after) if reads else ()
    conditions = tuple(dict.fromkeys((*conditions_of(file, text, after), *others)))
    found = mined({file: text}, {file: [after]}) if reads else Mined()
    with Runner(resolve(file), Options(), _SECONDS, SearchBudget(None), server) as runner:
        session = runner.capture(Trial())
        prover = Prover(runner, session, mined=found, conditions=conditions if reads else ())
        if unstable := prover.why_unstable():
            raise FailedTrialError(unstable)
        gone = Counter({key: count for key, count in keys_of(session).items() if key[0] in ("break", "recompile")})
        return prover.attempt(ChangeToProve(trial_with([NewText(file, after)]), gone, conditions)).outcome
