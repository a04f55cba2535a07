"""The reports of `ctrace check`: one on stdout or in a file, and any others in their own files."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.cli.console import check_output, complain, say, write_report
from ctrace.cli.show import Format, show_screen, shown_format
from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.files.writing import append_whole
from ctrace.reports.escape import commands_text

if TYPE_CHECKING:
    from ctrace.inspector.features.check.check_model import CheckOutcome, GateFinding


class Reports(Struct, frozen=True):
    """Which reports, and where they go."""

    json: bool = False
    markdown: bool = False
    output: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    summary: Path | None = None
    annotations: bool = False
    diagnostics: Path | None = None

    def check(self) -> None:
        """Refuse files that cannot be written, before anything runs.

        Raises:
            TargetError: a file cannot be written, or formats exclude each other.
        """
        shown_format(json=self.json, markdown=self.markdown)
        for file in (self.output, self.junit, self.sarif, self.summary, self.diagnostics):
            check_output(file)
        if self.annotations and (self.json or self.markdown) and self.output is None:
            raise TargetError("--annotations and a report both go to stdout", "write the report to a file: -o FILE")

    def write(self, outcome: "CheckOutcome") -> None:
        """Write all reports, even if one fails.

        Raises:
            RunError: a file cannot be written.
        """
        errors: list[RunError] = []
        # The screen first: what a job shows does not depend on a file that cannot be written.
        for write in (self._on_screen, self._junit, self._sarif, self._summary, self._annotated, self._diagnosed):
            try:
                write(outcome)
            except RunError as error:
                errors.append(error)
        for other in errors[1:]:
            say(f"ctrace: {other.what}")
        if errors:
            raise errors[0]

    def _on_screen(self, outcome: "CheckOutcome") -> None:
        with self._no_commands():
            self._main(outcome)

    def _junit(self, outcome: "CheckOutcome") -> None:
        from ctrace.reports.gate.junit import render_junit

        if self.junit is not None:
            # Local time, as the schema has no room for a zone.
            write_report(render_junit(outcome, datetime.now()), self.junit)

    def _sarif(self, outcome: "CheckOutcome") -> None:
        from ctrace.reports.gate.sarif import render_sarif

        if self.sarif is not None:
            write_report(render_sarif(outcome), self.sarif)

    def _diagnosed(self, outcome: "CheckOutcome") -> None:
        from ctrace.reports.gate.diagnostics import render_diagnostics

        if self.diagnostics is not None:
            write_report(render_diagnostics(outcome), self.diagnostics)

    def _summary(self, outcome: "CheckOutcome") -> None:
        if self.summary is not None:
            self._append(outcome, self.summary)

    def _annotated(self, outcome: "CheckOutcome") -> None:
        from ctrace.reports.gate.annotations import render_annotations

        if self.annotations:
            write_report(render_annotations(outcome), None)

    @contextmanager
    def _no_commands(self) -> Iterator[None]:
        """Keep GitHub's runner from running foreign text on the screen as a command."""
        if not self.annotations or self.output is not None:
            yield
            return
        # The runner takes commands again after this word, so that no output may guess it.
        token = secrets.token_hex(16)
        write_report(commands_text(f"::stop-commands::{token}\n"), None)
        try:
            yield
        finally:
            write_report(commands_text(f"::{token}::\n"), None)

    def _main(self, outcome: "CheckOutcome") -> None:
        match shown_format(json=self.json, markdown=self.markdown):
            case Format.JSON:
                from ctrace.reports.gate.json import render_check_json

                write_report(render_check_json(outcome), self.output)
            case Format.MARKDOWN:
                from ctrace.reports.gate.gate_markdown import render_table

                write_report(render_table(outcome), self.output)
            # A check of one wrong name is a wrong command line, and no report.
            case Format.TERMINAL if self.output is None and (refused := _refusal(outcome)) is not None:
                complain(refused.what, refused.todo)
            case Format.TERMINAL:
                from ctrace.reports.gate.gate_screen import check_screen

                show_screen(lambda width: check_screen(outcome, width), self.output)

    @staticmethod
    def _append(outcome: "CheckOutcome", file: Path) -> None:
        from ctrace.reports.gate.gate_markdown import render_table

        try:
            append_whole(file, render_table(outcome).encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise RunError(f"{file} cannot be written: {reason(error)}", "name another file") from None
        say(f"Wrote {file}")


def _refusal(outcome: "CheckOutcome") -> "GateFinding | None":
    """Return why the only model cannot be run, if no policy names it: two lines then, as any command would print."""
    from ctrace.inspector.features.check.check_model import FindingKind

    found = [*outcome.findings, *(each for one in outcome.checked for each in one.findings)]
    is_alone = len(outcome.checked) == len(found) == 1 and not outcome.policy.file
    if is_alone and found[0].kind is FindingKind.WRONG:
        return found[0]
    return None
