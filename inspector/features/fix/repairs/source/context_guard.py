"""Enter a context that only observes in eager calls only.

Matches `with` over one context that watches and changes no value: anomaly detection, profilers, NVTX ranges, captured
warnings. Compiled code enters contextlib.nullcontext instead, which the author has to allow.

Leaves alone contexts whose value is used (`as`), several contexts in one `with`, and every context it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.eager_only import chosen
from ctrace.inspector.edits.syntax_code import statement_in_function
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import full_name, module_name, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_WATCHES = frozenset(
    {
        "torch.autograd.set_detect_anomaly",
        "torch.autograd.detect_anomaly",
        "torch.autograd.profiler.profile",
        "torch.autograd.profiler.record_function",
        "torch.profiler.profile",
        "torch.profiler.record_function",
        "torch.cuda.nvtx.range",
        "warnings.catch_warnings",
    }
)


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the context at a place, entered in eager only."""
    found = statement_in_function(place)
    if found is None:
        return
    code, statement, _ = found
    if not isinstance(statement, cst.With) or len(statement.items) != 1 or statement.asynchronous:
        return
    item = statement.items[0]
    # `as` would bind None, which nullcontext() enters with.
    if item.asname is not None or not isinstance(item.item, cst.Call):
        return
    name = full_name(code, item.item.func)
    if name not in _WATCHES:
        return
    edits = Edits(code)
    torch, contextlib = torch_name(code, edits), module_name(code, edits, "contextlib")
    if torch is None or contextlib is None:
        return
    text = code.text(item.item)
    nothing = f"{contextlib}.nullcontext()"
    edits.expression(item.item, chosen(torch, text, nothing))
    question = f"May compiled code run without `{text}`?"
    yield SourceRewrite(edits.apply(), f"Enter `{text}` in eager only.", question=question)


REPAIR = SourceRepair("context_guard", "contexts that observe, in eager only", find)
