"""Do what `ctrace graphs MODEL --build --train` does, with or without two parts of its work.

usage: _watch.py MODEL [compare] [time_kernels]
"""

import sys

import typer

from ctrace.cli.commands.graphs import GraphView, graphs_answer, graphs_view_screen
from ctrace.cli.run_request import Request
from ctrace.cli.show import show_answer

PARTS = ("compare", "time_kernels")

if __name__ == "__main__":
    parts = {part: part in sys.argv[2:] for part in PARTS}
    try:
        show_answer(
            Request(sys.argv[1], options={"build": True, "train": True, **parts}),
            None,
            json=False,
            document=lambda session: graphs_answer(session, GraphView()),
            screen=lambda answer, width: graphs_view_screen(answer, GraphView(), width),
        )
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
