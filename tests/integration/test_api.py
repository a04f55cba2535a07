"""`ctrace.trace()` and `ctrace.explain()` inside a running process."""

import pytest

from tests.integration.conftest import Command
from tests.support.places import ROOT

HEAD = f"""\
import sys; sys.path.insert(0, {str(ROOT)!r})
import torch, ctrace

def f(x):
    y = torch.exp(x * 2)
    print("here")
    return y / y.sum()
"""


def _run(ctrace: Command, body: str) -> str:
    ctrace.write("notebook.py", HEAD + body)
    done = ctrace.python("notebook.py")
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("here\n", "")


@pytest.mark.slow
def test_explain_gives_the_session(ctrace: Command) -> None:
    body = "s = ctrace.explain(f, torch.ones(4, 5))\nprint(s.verdict, len(s.graphs), [b.gb for b in s.breaks], s.coverage.ops, s.problems)\n"
    assert _run(ctrace, body) == "partial 2 [('GB0059',)] 4 ()\n"


@pytest.mark.slow
def test_code_emitted_in_a_block_is_compiled_after_it(ctrace: Command) -> None:
    body = (
        "g = torch.compile(f)\n"
        "with ctrace.trace() as t:\n    g(torch.ones(3, 3))\n"
        "print(t.session.verdict, len(t.session.graphs), t.session.problems)\n"
        "with ctrace.trace(build=True) as t:\n    g(torch.ones(3, 3))\n"
        "print(len(t.session.graphs), t.session.environment.built, t.session.problems)\n"
        "with ctrace.trace() as t:\n    g(torch.ones(3, 3))\n"
        "print(t.session.verdict)\n"
    )
    assert _run(ctrace, body) == "partial 2 ()\n2 True ()\nnot_compiled\n"


def test_the_session_exists_if_the_block_raises(ctrace: Command) -> None:
    body = (
        "try:\n    with ctrace.trace() as t:\n        torch.compile(f)(torch.ones(2))\n        raise ValueError\n"
        "except ValueError:\n    print(t.session.verdict)\n"
    )
    assert _run(ctrace, body) == "partial\n"


def test_hooks_are_gone_after_the_block(ctrace: Command) -> None:
    body = (
        "import logging\nfrom torch._dynamo import convert_frame\nfrom torch._dynamo.output_graph import OutputGraph\n"
        "import torch._inductor.compile_fx as cf\nfrom torch._inductor.graph import GraphLowering\n"
        "import torch._inductor.scheduler as scheduler\nfrom torch._logging._internal import trace_log\n"
        "def state():\n"
        "    return (convert_frame.get_and_maybe_log_recompilation_reasons, OutputGraph.call_user_compiler, cf.compile_fx,\n"
        "            GraphLowering.compile_to_module, scheduler.fusion_log, scheduler.Scheduler.fuse_nodes,\n"
        "            [h for h in trace_log.handlers if 'ctrace' in type(h).__module__], list(sys.meta_path),\n"
        "            len(convert_frame._bytecode_hooks),\n"
        "            torch._inductor.config.fx_graph_cache, torch._inductor.config.cpp.vec_isa_ok,\n"
        "            torch._functorch.config.enable_autograd_cache)\n"
        "before = state()\nctrace.explain(f, torch.ones(2))\nprint(before == state())\n"
    )
    assert _run(ctrace, body) == "True\n"
