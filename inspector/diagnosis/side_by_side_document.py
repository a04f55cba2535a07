"""What `--target A,B` answers: a command's Document for each GPU, and the kernels compared."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import DeviceQuestion
from ctrace.inspector.findings.side_by_side import ComparedPart, side_by_side
from ctrace.inspector.findings.target_gpu_view import questions
from ctrace.inspector.session.summary import CodeTotals, RunAnswer, code_totals, run_answer

D = TypeVar("D")


class SideBySideDocument(Struct, Generic[D], frozen=True, kw_only=True):
    """The code of one program for several GPUs, by the name of the GPU."""

    JSON: ClassVar[str] = "schema targets failed compared"
    targets: Mapping[str, D]
    failed: Mapping[str, str]
    compared: tuple[ComparedPart, ...]
    answers: Mapping[str, RunAnswer]
    totals: Mapping[str, CodeTotals]
    asked: tuple[DeviceQuestion, ...]
    """Where the program asks about the device, on any GPU."""


def side_by_side_document(
    sessions: Mapping[str, Session], failed: Mapping[str, str], answer: Callable[[Session], D]
) -> SideBySideDocument[D]:
    """Answer for each GPU as a command does for one.

    Args:
        sessions: the run for each GPU.
        failed: why there is no run, for each other GPU.
        answer: makes the command's Document.
    """
    asked = dict.fromkeys(each for session in sessions.values() for each in questions(session))
    return SideBySideDocument(
        targets={name: answer(session) for name, session in sessions.items()},
        failed=failed,
        compared=side_by_side(sessions),
        answers={name: run_answer(session) for name, session in sessions.items()},
        totals={name: code_totals(session) for name, session in sessions.items()},
        asked=tuple(asked),
    )
