"""Ask torch's own bisector what makes a model of the accuracy study wrong, and print its answer as JSON.

usage: _accuracy_bisector.py forward|backward, with the variables that `_accuracy_models.py` reads
"""

import json
import sys
import time

import torch
from _accuracy_effect import PlainRun
from torch._inductor.compiler_bisector import CompilerBisector

TOLERANCE = 1.3e-6, 1e-5
"""torch.testing's own for float32; the gradients of these models are as large as their results."""


def main() -> None:
    run = PlainRun(sys.argv[1])
    runs = 0

    def is_right() -> bool:
        nonlocal runs
        runs += 1
        relative, absolute = TOLERANCE
        pairs = zip(run.compiled(), run.eager, strict=True)
        return all(torch.allclose(one, other, rtol=relative, atol=absolute) for one, other in pairs)

    began = time.monotonic()
    found = CompilerBisector.do_bisect(is_right)
    answer = None if found is None else [found.backend, found.subsystem, found.bisect_number, found.debug_info]
    print(json.dumps({"answer": answer, "runs": runs, "seconds": round(time.monotonic() - began, 1)}))


main()
