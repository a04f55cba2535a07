"""What torch has cached about this machine is forgotten before it is asked about a GPU that is not here."""

from pathlib import Path

from torch.utils import _triton as support

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.features.gpus.child.triton_interpreter import interpreter
from ctrace.inspector.features.gpus.child.virtual_gpu import _forgetting


def test_an_answer_is_forgotten_where_it_was_imported_before_a_hook_replaced_it(tmp_path: Path):
    """`torch._inductor.scheduler` keeps the function that it imported: it found no Triton for the backward graph."""
    imported = support.has_triton
    imported()
    recorder = Recorder(TraceLog(tmp_path / "trace.log"))
    with interpreter(recorder, lambda name, action: action(support) if name == support.__name__ else None):
        assert support.has_triton is not imported
        assert imported.cache_info().currsize == 1
        with _forgetting():
            assert imported.cache_info().currsize == 0
    assert support.has_triton is imported
