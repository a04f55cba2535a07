"""Record the stages of a pipeline, and let them agree on their shapes as all of them would.

Before its first step, a schedule asks all stages whether the program gave them the shapes of what they exchange: a
product of ones and zeros travels through the ranks and back (torch/distributed/pipelining/stage.py, 2.13). What a fake
process group receives is zero, so that every stage would wait for shapes that another one sends as objects. Peers run
the same program: they are taken to vote as the stages of this rank do. Earlier torch does not vote; each stage then
looks at its own shapes.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.facts.cluster_facts import StageMade

_VOTE = "_warmup_forward_vote"
_RESULT = "_warmup_backward_result"


@contextmanager
def stage_votes(recorder: Recorder, when: When) -> Iterator[None]:
    """Install the hooks on torch's own stages."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            base: Any = getattr(module, "_PipelineStageBase", None)
            kind: Any = getattr(module, "PipelineStage", None)
            if base is not None:
                patches.enter_context(patched(base, "__init__", _recording(recorder, base.__init__)))
            if hasattr(kind, _VOTE) and hasattr(kind, _RESULT):
                patches.enter_context(patched(kind, _VOTE, _voting(module, getattr(kind, _VOTE))))
                patches.enter_context(patched(kind, _RESULT, _agreeing(getattr(kind, _RESULT))))

        when("torch.distributed.pipelining.stage", install)
        yield


def _recording(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def init(stage: Any, *args: Any, **kwargs: Any) -> None:
        original(stage, *args, **kwargs)
        with recorder.watching("a stage of a pipeline"):
            from torch.distributed import distributed_c10d

            c10d: Any = distributed_c10d
            group = stage.group or c10d.group.WORLD
            recorder.add(StageMade(stage.stage_index, stage.num_stages, str(group.group_name)))

    return init


def _voting(module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def vote(stage: Any, has_backward: bool, received_acc: Any = None) -> Any:
        product = original(stage, has_backward, received_acc)
        if received_acc is None and not stage.is_first:
            needs_dynamic = module.InferenceMode.needs_dynamic(stage._user_meta, has_backward)
            product.fill_(0 if needs_dynamic else 1)
        # The product of all stages of this rank is what their peers are taken to find, too.
        stage._ctrace_vote = product
        return product

    return vote


def _agreeing(original: Callable[..., Any]) -> Callable[..., Any]:
    def result(stage: Any, received_result: Any = None) -> Any:
        found = original(stage, received_result)
        is_from_peer = not stage.is_last and not stage._is_same_rank(stage.stage_index + 1)
        return found.copy_(stage._ctrace_vote) if is_from_peer else found

    return result
