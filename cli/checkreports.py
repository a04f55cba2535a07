"""The reports of `ctrace check`: one on stdout or in a file, and as many others as are asked for, each in its file."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.cli.console import check_output, say, write_report
from ctrace.cli.show import Format, show_screen, shown_format
from ctrace.inspector.errors import RunError, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.gate.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Reports:
    """Which reports, and where they go."""

    json: bool = False
    markdown: bool = False
    output: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    summary: Path | None = None
    annotations: bool = False

    def check(self) -> None:
        """Refuse what cannot be written before anything runs.

        Raises:
            TargetError: a file cannot be written, or formats exclude each other.
        """
        shown_format(json=self.json, markdown=self.markdown)
        for file in (self.output, self.junit, self.sarif, self.summary):
            check_output(file)
        if self.annotations and (self.json or self.markdown) and self.output is None:
            raise TargetError("--annotations and a report both go to stdout", "write the report to a file: -o FILE")

    def write(self, outcome: "Outcome") -> None:
        """Write all of them.

        Raises:
            RunError: a file cannot be written.
        """
        with self._no_commands():
            self._main(outcome)
        if self.junit is not None:
            from ctrace.reports.gate.junit import render_junit

            write_report(render_junit(outcome, datetime.now()), self.junit)
        if self.sarif is not None:
            from ctrace.reports.gate.sarif import render_sarif

            write_report(render_sarif(outcome), self.sarif)
        if self.summary is not None:
            self._append(outcome, self.summary)
        if self.annotations:
            from ctrace.reports.gate.annotations import render_annotations

            write_report(render_annotations(outcome), None)

    @contextmanager
    def _no_commands(self) -> Iterator[None]:
        """Keep a runner of GitHub's from taking a line of the screen for a command; some of it is foreign text."""
        if not self.annotations or self.output is not None:
            yield
            return
        token = secrets.token_hex(16)
        print(f"::stop-commands::{token}", flush=True)
        try:
            yield
        finally:
            print(f"::{token}::", flush=True)

    def _main(self, outcome: "Outcome") -> None:
        match shown_format(json=self.json, markdown=self.markdown):
            case Format.JSON:
                from ctrace.reports.gate.json import render_check_json

                write_report(render_check_json(outcome), self.output)
            case Format.MARKDOWN:
                from ctrace.reports.gate.markdown import render_table

                write_report(render_table(outcome), self.output)
            case Format.TERMINAL:
                from ctrace.reports.gate.screen import check_screen

                show_screen(lambda width: check_screen(outcome, width), self.output)

    @staticmethod
    def _append(outcome: "Outcome", file: Path) -> None:
        from ctrace.reports.gate.markdown import render_table

        try:
            with file.open("a", encoding="utf-8") as summary:
                summary.write(render_table(outcome))
        except OSError as error:
            raise RunError(f"{file} cannot be written: {error.strerror}", "name another file") from None
        say(f"Wrote {file}")
