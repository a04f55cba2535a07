"""`ctrace upgrade`: what changes with other versions, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.features.upgrade.upgrade_model import UpgradeDocument

EXAMPLES = """\b
Examples:
  ctrace upgrade torch==2.15.0               the models of ctrace.yaml
  ctrace upgrade torch==2.15.0 model.py      one model
  ctrace upgrade transformers==5.2.0 model.py --yes
  ctrace upgrade --python other/.venv model.py      an environment that exists
  ctrace upgrade --python a/.venv --python b/.venv model.py
  ctrace upgrade torch==2.15.0 --yes --fail-on worse --markdown   for CI
  ctrace upgrade --clean                     remove the environments
"""

Words = Annotated[
    list[str] | None,
    typer.Argument(
        help="Requirements, with ==, >=, ~= or @, and models. Default: all models of the policy.", show_default=False
    ),
]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Compare with the environment of this Python; given twice, compare these two.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Install without asking.")]
AllowBuild = Annotated[bool, typer.Option("--allow-build", help="Also build packages that have no wheel.")]
Clean = Annotated[bool, typer.Option("--clean", help="Remove the environments that ctrace made, and list them.")]
FailOn = Annotated[
    str | None,
    typer.Option("--fail-on", metavar="worse", help="worse: exit with 1 if something is worse. any: if it differs."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="KIND",
        help="With --fail-on, leave out a kind of change, such as kernel, or of reason, such as library.",
        show_default=False,
    ),
]
Sarif = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Also write SARIF 2.1.0 to FILE.")]
All = Annotated[bool, typer.Option("--all", help="Show every change.")]


def upgrade(
    words: Words = None,
    python: Pythons = None,
    yes: Yes = False,
    allow_build: AllowBuild = False,
    clean: Clean = False,
    fail_on: FailOn = None,
    allow: Allow = None,
    all_of_it: All = False,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    sarif: Sarif = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    timeout: opt.Timeout = None,
) -> None:
    """Run models in two environments; say what changed, and why."""
    from ctrace.cli.console import check_output
    from ctrace.cli.show import shown_format
    from ctrace.cli.upgrading import UpgradeRequest, cleaned, show_cleaned, show_upgrade, upgraded
    from ctrace.inspector.errors import Exit
    from ctrace.inspector.runs.capture_request import Options

    form = shown_format(json=json, markdown=markdown)
    check_output(output)
    check_output(sarif)

    def keep(document: "UpgradeDocument") -> None:
        # A device or a pipe gets one answer, at the end.
        if output is not None and str(output) != "-" and (output.is_file() or not output.exists()):
            show_upgrade(document, form, output, None, all_of_it=all_of_it, is_said=False)

    options = Options(tuple(inputs or ()), tuple(vary or ()), train=train, mode=mode, dynamic=dynamic)
    request = UpgradeRequest(
        words=tuple(words or ()),
        pythons=tuple(python or ()),
        options=options,
        yes=yes,
        builds=allow_build,
        fail_on=fail_on,
        allow=tuple(allow or ()),
        timeout=timeout,
        keep=keep,
    )
    if clean:
        show_cleaned(cleaned(request), form, output)
        return
    document, ended = upgraded(request)
    show_upgrade(document, form, output, sarif, all_of_it=all_of_it)
    # After the report on what was compared until then.
    if ended is not None:
        raise ended
    if document.failed_on:
        raise typer.Exit(Exit.WORSE)
    if any(each.error is not None for each in document.models):
        raise typer.Exit(Exit.PROGRAM)
