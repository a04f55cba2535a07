"""Reuse the results of earlier checks for jobs whose files, answers and circumstances have not changed.

A result is one JSON file in the folder of runs. Other users who can write there must not decide a check: a result
counts only with a keyed digest, which proves that this user's ctrace wrote it; see `runs/provenance.py`. Only complete
results are saved: none of a job that failed, timed out, left processes running or raised doubts, and none that depends
on what nobody can ask again; see `answers.py`.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ctrace.inspector.errors import SettingsError
from ctrace.inspector.features.check.check_model import SEED, CheckedState, CheckJob, FinishedJob, JobKey, SeenJob
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.files.writing import write_json
from ctrace.inspector.grouping import collected
from ctrace.inspector.knowledge.counting import count, named
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.answers import (
    Answers,
    NotReusableError,
    answers_of,
    are_unchanged,
    forget_answers,
    is_current,
)
from ctrace.inspector.runs.circumstances import Circumstances

FOLDER = ".checked"
"""The folder of saved results in the folder of runs; a name that begins with a dot is not a run."""
# Chosen: a policy has tens of jobs, so this keeps their results for many states of the code.
_MOST_SAVED = 1000
# Chosen: notes must not bury the findings; each names a job that ran anyway.
_MOST_NOTES = 5


class _Result(Struct, frozen=True):
    """One saved result."""

    files: Mapping[str, str]
    """Digests of the files that the model was loaded from and read."""
    answers: str
    """What else it asked: `Answers` as JSON, which is long, in a text that only msgspec reads."""
    state: CheckedState
    run: str | None = None


class Reuse:
    """The saved results of the jobs of one check."""

    def __init__(self, runs: Path, root: Path, owned: tuple[str, ...]) -> None:
        self._runs = runs
        self._not_kept: dict[JobKey, str] = {}
        forget_answers()
        self._circumstances: Circumstances | None = None
        with suppress(SettingsError, OSError, ValueError):  # nothing is reused; each job reports wrong settings
            self._circumstances = Circumstances(root, owned)

    def find(self, job: CheckJob) -> SeenJob | None:
        """Return the saved result of a job, or None if there is none or if files or circumstances have changed."""
        if self._circumstances is None:
            return None
        try:
            result = self._read(job)
            if result is None or result.state.job != job.key or not _is_current(result):
                return None
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        # The run may have been pruned; the result does not need it.
        has_run = result.run is not None and (self._runs / result.run / "run.json").is_file()
        return SeenJob(job, result.state, run=result.run if has_run else None, is_reused=True)

    def keep(self, ran: FinishedJob, seen: SeenJob) -> None:
        """Save the result of a job that ended well; if that fails, the next check runs the job again."""
        session = ran.session
        if self._circumstances is None or session is None or seen.state is None:
            return
        is_complete = seen.has_ended and not seen.doubts and not ran.left and ran.error is None
        with suppress(OSError, ValueError):
            # First, so that no older result stays if this one is not saved.
            self._path(ran.job).unlink(missing_ok=True)
            if not is_complete or not session.made_of:
                return
            try:
                self._save(ran, session.made_of, seen.state)
            except NotReusableError as error:
                self._not_kept[ran.job.key] = str(error)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why results of this check are not saved, one line for each reason."""
        reasons = collected((why, str(key)) for key, why in self._not_kept.items())
        found = [f"not cached: {', '.join(names)}: {why}" for why, names in reasons.items()]
        more = len(found) - _MOST_NOTES
        if more > 0:
            return (*found[:_MOST_NOTES], f"not cached: {count(more, 'more reason')}")
        return tuple(found)

    def _save(self, ran: FinishedJob, made_of: Mapping[str, str], state: CheckedState) -> None:
        """Save the result of a job.

        Raises:
            NotReusableError: it depends on what nobody can ask again, or on what changed meanwhile.
            OSError: a file is gone, or the result cannot be written.
            ValueError: a file is no longer a regular file.
        """
        assert ran.session is not None
        files, answers = answers_of(ran.session.asked, ran.observed, made_of, self._runs)
        result = _Result(files, msgspec.json.encode(answers).decode(), state, ran.run)
        forget_answers()
        if not _is_current(result):
            raise NotReusableError("what it asked changed while it ran")
        self._write(ran.job, result)

    def _path(self, job: CheckJob) -> Path:
        """Return the file of a job's result; its name is the digest of the job and its circumstances."""
        assert self._circumstances is not None
        digest = self._circumstances.digest((to_builtins(job.key), SEED), job.target, job.options)
        return self._runs / FOLDER / f"{digest}.json"

    def _read(self, job: CheckJob) -> _Result | None:
        """Read a saved result; return None if its proof is wrong.

        Raises:
            OSError: there is none, or it cannot be read.
            ValueError: it does not have the form that `_write` writes.
        """
        path = self._path(job)
        data = read_object(path)
        proof = typed(str, data.pop("proof", None), "proof")
        if not provenance.is_ours(_text(path, data), proof):
            return None
        result = typed(_Result, data, "the result")
        counts = {Count(name): number for name, number in result.state.counts.items()}
        return replace(result, state=replace(result.state, counts=counts))

    def _write(self, job: CheckJob, result: _Result) -> None:
        path = self._path(job)
        data = to_builtins(result)
        proof = provenance.proof_of(_text(path, data))
        if not proof:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        saved = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for each in saved[: max(len(saved) - _MOST_SAVED, 0)]:
            each.unlink(missing_ok=True)
        write_json(path, {**data, "proof": proof})


def _text(path: Path, data: object) -> str:
    """Return the text that the proof covers: the result, with the path of its file."""
    # With the path, so that the result of another job cannot be copied here.
    return json.dumps([str(path.resolve()), data], sort_keys=True)


def _is_current(result: _Result) -> bool:
    """Whether the files are unchanged, and the questions have the same answers.

    Raises:
        OSError: a file is gone.
        ValueError: a file is no longer a regular file.
    """
    answers = msgspec.json.decode(result.answers, type=Answers)
    return is_current(answers) and are_unchanged(result.files)


def reuse_note(jobs: Mapping[JobKey, bool]) -> str:
    """Say how many jobs reuse saved results; `jobs` maps each job to whether it reuses one."""
    number = sum(jobs.values())
    if not number:
        return ""
    are_models = len({key.model for key in jobs}) == len(jobs)
    noun = named(len(jobs), "model" if are_models else "job")
    return (
        f"{number} of {len(jobs)} {noun} unchanged since the last check: results reused; --no-cache checks them again"
    )
