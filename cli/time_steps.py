"""Run `ctrace time`: from the command line to the measuring processes, and from their results to a report."""

from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.cli.command_options import Screen
from ctrace.inspector.errors import Exit, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.features.time.events import Event
    from ctrace.inspector.features.time.measuring import Plan
    from ctrace.inspector.features.time.timing_model import CompileConfiguration, Timings
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.target import ModelTarget


def resolved(target: str | None, options: "Options") -> "ModelTarget":
    """Return the model to time.

    Raises:
        TargetError: there is none, or it is a program.
    """
    from ctrace.inspector.runs.options import check_options
    from ctrace.inspector.runs.target import ProgramTarget, resolve

    if target is None:
        raise TargetError("no model to time: times are measured, not read from a run", "name one: ctrace time model.py")
    found = resolve(target, has_inputs=bool(options.inputs))
    if isinstance(found, ProgramTarget):
        what = f"{target} is a program: it calls torch.compile itself, when and how often it likes"
        raise TargetError(what, "name the model in it: ctrace time file.py:name")
    check_options(found, options)
    return found


def timings(plan: "Plan", target: str, *, is_table: bool) -> "Timings":
    """Measure all configurations, with a status line on a terminal."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.time.measuring import measured
    from ctrace.inspector.features.time.timing_model import Timings

    with progress() as shown:

        def observe(configuration: "CompileConfiguration", event: "Event | None") -> None:
            text = _step(event)
            if text:
                shown.say(f"{configuration.name}: {text}" if is_table else text)
            else:
                shown.observe(None)

        found = measured(plan, observe, stdout=shown.child_output, stderr=shown.child_output)
        return Timings(target, tuple(found), is_table)


def _step(event: "Event | None") -> str:
    from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
    from ctrace.inspector.features.time import events as ev

    match event:
        case ev.Setup():
            return "warming up"
        case WarmedUp(scenario=scenario, part=part, side=side):
            return f"{scenario} {part}: {side} is warm"
        case RoundDone(scenario=scenario, part=part):
            return f"{scenario} {part}: measuring"
        case ev.Peaks():
            return "profiling"
    return ""


def show(timings: "Timings", output: Path | None, *, json: bool, verbose: bool = False) -> None:
    """Print the table or the screen, or JSON.

    Raises:
        RunError: the file cannot be written.
    """
    from ctrace.cli.show import show_document
    from ctrace.inspector.features.time.timing_differences import TimingDocument, timing_document

    def screen(document: TimingDocument, width: int) -> Screen:
        from ctrace.reports.terminal.timing_screen import autotuning_lines, table_screen, timing_screen

        found = document.timings
        shown = table_screen(found, width) if found.is_table else timing_screen(found, width)
        return (*shown, *autotuning_lines(found, verbose=verbose))

    show_document(timing_document(timings), output, json=json, screen=screen)


def exit_code(timings: "Timings") -> Exit:
    """Return 3 if the model failed or was cut off; in a table, if no row was measured or it was interrupted."""
    from ctrace.inspector.features.time.measuring import INTERRUPTED
    from ctrace.inspector.features.time.timing_view import has_failed

    found = timings.configurations
    if any(each.stopped == INTERRUPTED for each in found):
        return Exit.PROGRAM
    failed = [has_failed(each) for each in found]
    if timings.is_table:
        if not any(each.first is not None for each in found):
            return Exit.PROGRAM
        return Exit.DONE
    if any(failed):
        return Exit.PROGRAM
    return Exit.DONE
