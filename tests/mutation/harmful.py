"""Edits of healthy models that hurt compilation."""

from tests.mutation.shapes import Edit, inserted


def _harmful(name: str, body: str, *shows: str, top: str = "", init: str = "", at: str = "spot") -> Edit:
    return Edit(name, inserted(body, top=top, init=init, at=at), frozenset(shows or ("break",)))


HARMFUL = (
    _harmful("print", 'print("hidden", T)'),
    _harmful("print-in-helper", 'print("helper", T.shape)', at="helper"),
    _harmful("print-in-loop", 'print("layer", T.shape)', "break", "skip", at="loop"),
    _harmful("item", "T = T * max(T.norm().item(), 1.0)"),
    _harmful("item-unused", "T.norm().item()"),
    _harmful("float-of-tensor", "T = T * max(float(T.norm()), 1.0)"),
    _harmful("tolist", "T = T + sum(T.flatten()[:2].tolist())"),
    _harmful("tensor-if", "if T.sum() > 1e9:\n    T = T * 0.5"),
    _harmful("raise-if", 'if T.isnan().any():\n    raise ValueError("not a number")'),
    _harmful("tensor-while", "while T.norm() > 1e6:\n    T = T / 2"),
    _harmful(
        "raise-and-catch", "try:\n    if T.isnan().any():\n        raise ValueError\nexcept ValueError:\n    T = -T"
    ),
    _harmful(
        "generator",
        "T = sum(halves(T))",
        top="""
            def halves(values):
                for part in (values, values):
                    print(part.shape)
                    yield part / 2
        """,
    ),
    _harmful("import-inside", 'import json\njson.dumps({"width": T.shape[-1]})'),
    _harmful("import-by-name", 'import importlib\nimportlib.import_module("math")'),
    _harmful("counter", "self.calls += 1", "recompile", init="self.calls = 0"),
    _harmful("counter-used", "self.calls += 1\nT = T * min(1.0, self.calls / 100)", "recompile", init="self.calls = 0"),
    _harmful(
        "growing-list", "self.seen.append(T.shape[-1])\nT = T * len(self.seen)", "recompile", init="self.seen = []"
    ),
    _harmful("list-of-tensors", "self.seen.append(T.detach())", "recompile", init="self.seen = []"),
    _harmful("global-list", "SEEN.append(T.detach())", "recompile", top="SEEN = []"),
    _harmful(
        "numpy",
        "T = T + torch.from_numpy(np.interp(T.detach().numpy(), [0, 1], [0, 1])).to(T.dtype)",
        top="import numpy as np",
    ),
    _harmful("numpy-bytes", "T.detach().numpy().tobytes()"),
    _harmful("logging", 'logging.getLogger(__name__).info("hidden %s", T.shape)', top="import logging"),
    _harmful("clock", "began = time.perf_counter()", top="import time"),
    _harmful("clock-guarded", "T = T * (1.0 if time.time() > 0 else 0.5)", top="import time"),
    _harmful(
        "disabled-helper",
        "T = kept(T)",
        "disabled",
        top="@torch.compiler.disable\ndef kept(values):\n    return values * 2",
    ),
    _harmful("warning", 'warnings.warn("no longer kept")', top="import warnings"),
    _harmful("open", "with open(__file__) as source:\n    source.readline()"),
    _harmful("environ-set", 'os.environ["MODEL_SEED"] = "1"', top="import os"),
    _harmful("nonzero", "T = T + T.nonzero().shape[0]"),
    _harmful("mask-index", "T = T + T[T > 0].sum()"),
    _harmful("set-by-value", "seen = set()\nseen.add(T.argmax().item())"),
    _harmful("random-guarded", "if random.random() < 2:\n    T = T * 2", top="import random"),
    _harmful("random-generator", "T = T * random.Random(0).gauss(0, 1)", top="import random"),
    _harmful("seed", "torch.manual_seed(0)"),
    _harmful("c-extension", 'T = T * (1 + zlib.crc32(b"seed") % 2)', top="import zlib"),
    _harmful("id-cache", "self.cache[id(T)] = T.shape", init="self.cache = {}"),
    _harmful("data-pointer", "T = T * (T.data_ptr() % 2 + 1)"),
    _harmful(
        "dtype-flip",
        "self.flip = not self.flip\nT = T.to(torch.float64 if self.flip else torch.float32).float()",
        "recompile",
        init="self.flip = False",
    ),
    _harmful("mode-flip", "self.train(not self.training)", "recompile"),
    _harmful("frame", "T = T * len(sys._getframe().f_code.co_name)", top="import sys"),
    _harmful("lock", "with LOCK:\n    T = T * 2", top="import threading\n\nLOCK = threading.Lock()"),
    _harmful("equal", "if torch.equal(T, T):\n    T = T + 1"),
    _harmful("hook", "handle = self.layers[0].register_forward_hook(lambda *every: None)\nhandle.remove()"),
)
"""Each of them makes torch compile more graphs than before, or leave something in eager; measured with torch 2.13."""
