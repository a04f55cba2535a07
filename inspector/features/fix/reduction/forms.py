"""Write the last form of a reduced program: an error shows the finding or, where that is impossible, torch's log."""

import ast
from collections.abc import Iterator

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.features.fix.reduction.compile_calls import after_imports, with_fullgraph
from ctrace.inspector.features.fix.reduction.program import Edit

_SKIPS = "print(torch._dynamo.utils.counters['frames'])"


def forms(what: Finding) -> Iterator[tuple[str, Edit]]:
    """Yield the forms in which a program may show a finding, the clearest first, each with its name."""
    match what:
        case Finding.BREAK:
            yield "fullgraph=True raises", with_fullgraph
            yield "torch logs the graph break", lambda tree: after_imports(tree, _log("graph_breaks"))
        case Finding.RECOMPILE:
            error = "torch._dynamo.config.error_on_recompile = True"
            yield "error_on_recompile raises", lambda tree: after_imports(tree, error)
            yield "torch logs the recompilation", lambda tree: after_imports(tree, _log("recompiles"))
        case Finding.SKIP:
            yield "torch counts fewer compiled frames than frames", _counting


def _log(what: str) -> str:
    return f"torch._logging.set_logs({what}=True)"


def _counting(tree: ast.Module) -> bool:
    tree.body += ast.parse(_SKIPS).body
    return True
