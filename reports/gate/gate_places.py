"""Find the place of a finding: a file relative to the working directory, a line, and columns if known."""

import os
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.facts.sites import Site
from ctrace.inspector.features.check.gate_model import JobKey
from ctrace.inspector.features.check.verdict import CheckedJob, CheckOutcome, GateFinding
from ctrace.inspector.files.writing import working_folder


class Spot(Struct, frozen=True):
    """A place in a file."""

    file: str
    """Relative to the working directory, with `/`, if below it; else absolute."""
    line: int | None = None
    columns: tuple[int, int] | None = None
    """The first column, from 1, and the column after the last one, in characters."""

    def __str__(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"


def cwd() -> Path:
    """Return the working directory, to which shown paths are relative."""
    return working_folder()


def own_spot(finding: GateFinding, outcome: CheckOutcome) -> Spot | None:
    """Return the place of a finding, or of its site; None if neither has one."""
    if finding.file:
        return Spot(near(finding.file, outcome), finding.line or None)
    if finding.site:
        return site_spot(finding.site, outcome)
    return None


def spot(finding: GateFinding, checked: CheckedJob | None, outcome: CheckOutcome) -> Spot | None:
    """Return a finding's place, or else its model's file, the policy or the lock; None without any file."""
    if own := own_spot(finding, outcome):
        return own
    name = model_file(checked.job) if checked else None
    name = name or outcome.policy.file or outcome.lock.file
    return Spot(near(name, outcome)) if name else None


def site_spot(site: Site, outcome: CheckOutcome) -> Spot | None:
    """Return the place of a site; None if its file is not known."""
    if not site.file:
        return None
    columns = _columns(site) if site.line else None
    return Spot(near(site.file, outcome), site.line or None, columns)


def _columns(site: Site) -> tuple[int, int] | None:
    """Return columns counted from the start of the line; a span counts from the indent."""
    if site.span is None or not site.source:
        return None
    indent = len(site.source) - len(site.source.lstrip())
    begin, end = (min(column + indent, len(site.source)) + 1 for column in site.span)
    return (begin, end) if begin < end else None


def model_file(job: JobKey) -> str | None:
    """Return the file of a job's model as the policy writes it; None for `package.module:name`."""
    head, colon, _ = job.model.rpartition(":")
    file = head if colon and head.endswith(".py") else job.model
    return file if file.endswith(".py") else None


def near(file: str, outcome: CheckOutcome) -> str:
    """Write a file relative to the working directory; a relative `file` starts at the policy's folder."""
    whole = _absolute(file, outcome)
    here = cwd()
    if whole.is_relative_to(here):
        return whole.relative_to(here).as_posix()
    return whole.as_posix()


def _absolute(file: str, outcome: CheckOutcome) -> Path:
    own = (outcome.policy.file, outcome.lock.file)
    folder = Path() if file in own or outcome.policy.file is None else Path(outcome.policy.file).parent
    return Path(os.path.normpath(cwd() / folder / file))
