"""The screens of `ctrace kernels`, from a Session."""

from ctrace.cli.command_options import Screen
from ctrace.cli.kernel_choice import KernelChoice, document, screen
from ctrace.inspector.facts.session import Session
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.widgets import led, led_by_verdict


def kernels_view(session: Session, view: KernelChoice, width: int) -> Screen:
    """Return what the command shows, with the verdict where the command shows it."""
    lead = led if view.is_table else led_by_verdict
    return lead(run_answer(session), screen(document(session, view), view, width))
