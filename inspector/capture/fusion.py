"""The scheduler's fusion rounds, as data.

Torch only prints them, as debug text of the artifact logger `fusion` (2.13, _inductor/scheduler.py:112, rounds at
4986). We stand in for that logger: we are handed the same messages with their arguments, and pass them on when the
user listens to them. It costs less than logging: no record is made, and no candidate is printed.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import When
from ctrace.inspector.capture.stage import current_stage


class _FusionLog:
    """Collects what the scheduler says while it fuses the nodes of one graph."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.rounds: list[dict[str, Any]] = []
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def start(self) -> None:
        self.rounds, self.refused = [], 0

    def debug(self, message: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(message, str):
            self._message(message, args)
        else:  # a WhyNoFuse
            self.refused += 1
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(message, *args, **kwargs)

    def _message(self, message: str, args: tuple[Any, ...]) -> None:
        if message.startswith("===== attempting fusion") and len(args) == 2:
            self.rounds.append({"before": args[1], "after": args[1], "fused": []})
        elif message.startswith("fusing %s with %s") and len(args) == 2 and self.rounds:
            self.rounds[-1]["fused"].append([str(args[0]), str(args[1])])
        elif message.startswith("completed fusion round") and len(args) == 3 and self.rounds:
            self.rounds[-1]["after"] = args[2]


@contextmanager
def fusion(recorder: Recorder, when: When) -> Iterator[None]:
    """Record, for each graph part, the nodes before and after, every round and every fused pair."""
    with ExitStack() as patches:

        def install(scheduler: ModuleType) -> None:
            log = _FusionLog(scheduler.fusion_log)

            def fuse_nodes(self: Any, nodes: list[Any]) -> list[Any]:
                log.start()
                fused: list[Any] = original(self, nodes)
                with recorder.watching("fusion"):
                    recorder.record("fusion", _summary(log, len(nodes), len(fused)))
                return fused

            with recorder.watching("fusion"):
                patches.enter_context(patched(scheduler, "fusion_log", log))
                original = patches.enter_context(patched(scheduler.Scheduler, "fuse_nodes", fuse_nodes))

        when("torch._inductor.scheduler", install)
        yield


def _summary(log: _FusionLog, before: int, after: int) -> dict[str, Any]:
    return {
        "stage": current_stage(),
        "before": before,
        "after": after,
        "rounds": log.rounds,
        "refused": log.refused,
    }
