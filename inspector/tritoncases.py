"""Which limit on user-written Triton kernels a break is about: torch has one gb id for all, and says it in words.

The words are those of `TritonHOPifier` (2.11 and 2.13, _higher_order_ops/triton_kernel_wrap.py) and of its child in
_dynamo/variables/functions.py.
"""

import re

from ctrace.inspector.sites import ParsedBreak

_LIMIT = "GB0361"
_PHRASES = {
    "are supported for triton.autotune": "triton_autotune",
    "pre_hook and post_hook": "triton_hooks",
    "num_ctas": "triton_ctas",
    "multiple @triton.autotune": "triton_autotuned_twice",
    "only a single grid": "triton_two_grids",
    "with a grid": "triton_no_grid",
    "Only tuple grids": "triton_grid",
    "at most rank 3": "triton_rank",
    "must return constant": "triton_heuristics",
    "Unexpected argument type": "triton_argument",
}
"""What torch says, to the case in advice/breaks.yaml; the first that fits."""
_LAUNCHER = re.compile(r"[/\\]triton[/\\]runtime[/\\]jit\.py$")


def triton_case(parsed: ParsedBreak) -> str:
    """Name the case of a break, as in `GB0361/triton_hooks`; empty: it is not about a Triton kernel.

    Dynamo is in Triton's own launcher only where it does not take a kernel for one: torch finds no device for it.
    """
    if _LIMIT in parsed.gb:
        return next((case for phrase, case in _PHRASES.items() if phrase in parsed.explanation), "")
    return "triton_unseen" if any(_LAUNCHER.search(frame.file) for frame in parsed.frames) else ""
