"""`ctrace schema`: the JSON Schema of what a command prints with --json."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace schema                     the commands that have a schema
  ctrace schema explain             the schema of `ctrace explain --json`
  ctrace schema check -o check.schema.json
"""

Command = Annotated[
    str | None,
    typer.Argument(metavar="[COMMAND]", help="The command whose schema to print; without it, list the commands."),
]


def schema(command: Command = None, output: opt.Output = None) -> None:
    """Print the JSON Schema of what a command writes with --json."""
    from ctrace.cli.console import check_output, write_report
    from ctrace.reports.escape import plain_text
    from ctrace.reports.schemas import render_schema, schema_names

    check_output(output)
    if command is None:
        write_report(plain_text("".join(f"{name}\n" for name in schema_names())), output)
    else:
        write_report(render_schema(command), output)
