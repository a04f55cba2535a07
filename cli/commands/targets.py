"""`ctrace targets`: the GPUs that --target accepts, the facts known about each, and their sources."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace targets                        GPUs that --target accepts
  ctrace targets h100                   all facts about one, with sources
  ctrace targets gpus.yaml:mine         a GPU from your own file
  ctrace targets --read -o gpu.yaml     describe this machine's GPU
  ctrace explain x.py --target gpu.yaml  and use it on another machine
"""

Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="A GPU to show; with --read, the name of the new entry.")
]
Read = Annotated[bool, typer.Option("--read", help="Print an entry for this machine's GPU, as YAML.")]


def targets(name: Name = None, read: Read = False, json: opt.Json = False, output: opt.Output = None) -> None:
    """List the GPUs that --target accepts, with what is known about each."""
    from ctrace.cli.console import check_output
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.files.writing import working_folder
    from ctrace.inspector.runs.settings import settings_at

    check_output(output)
    files = settings_at(working_folder()).gpus
    if read and json:
        raise TargetError("--read and --json exclude each other", "choose one; --read writes YAML")
    if read:
        _read(name, files, output)
    elif name is not None:
        _one(name, files, output, json=json)
    else:
        _all(files, output, json=json)


def _read(name: str | None, files: tuple[str, ...], output: Path | None) -> None:
    from ctrace.cli.console import write_report
    from ctrace.inspector.knowledge.gpus.gpu_table import gpus
    from ctrace.inspector.runs.local_gpu import at_hand, entry
    from ctrace.reports.escape import plain_text

    table = gpus(files)
    write_report(plain_text(entry(at_hand(), table, name)), output)


def _one(name: str, files: tuple[str, ...], output: Path | None, *, json: bool) -> None:
    from ctrace.cli.show import show_document
    from ctrace.inspector.knowledge.gpus.gpu_table import Listed, listed

    def screen(document: Listed, _width: int) -> opt.Screen:
        from ctrace.reports.terminal.side_by_side_screen import target_screen

        return target_screen(document)

    show_document(listed(name, files), output, json=json, screen=screen)


def _all(files: tuple[str, ...], output: Path | None, *, json: bool) -> None:
    from ctrace.cli.show import show_document
    from ctrace.inspector.knowledge.gpus.gpu_table import Listed, gpus

    def screen(document: tuple[Listed, ...], width: int) -> opt.Screen:
        from ctrace.reports.terminal.side_by_side_screen import targets_screen

        return targets_screen(document, width)

    show_document(tuple(gpus(files).values()), output, json=json, screen=screen)
