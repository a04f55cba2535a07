"""The check on recorders as a script, for a Python without pytest: `PYTHONPATH=. python .../plain.py`."""

import sys

from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, reconstruct
from ctrace.inspector.source.disassembly import disassembled
from tests.inspector.decompile import cases, recording

if __name__ == "__main__":
    wrong = 0
    for case in cases.CASES:
        data = disassembled(case.__code__)
        found = reconstruct(data)
        if isinstance(found, FunctionSource):
            differs = recording.difference(case.__code__, data, found)
            wrong += differs is not None
            print(case.__name__, "DIFFERS" if differs else "same", differs or "")
        else:
            print(case.__name__, "refused:", found.why)
    sys.exit(wrong > 0)
