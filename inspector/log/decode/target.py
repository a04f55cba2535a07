"""Decode the entries of a run with `--target`."""

from ctrace.inspector.log.events.target import ChoiceLeftOpen, DeviceQueried
from ctrace.inspector.log.fields import Fields
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.target import Candidate, DeviceQuestion, Undecided


def undecided(graph: str, data: Fields) -> ChoiceLeftOpen:
    """Decode a choice that needs the device."""
    return ChoiceLeftOpen(
        Undecided(
            graph=graph,
            stage=Stage(data.text("stage")),
            kind=data.text("kind"),
            subject=data.text("subject"),
            taken=data.text("taken"),
            candidates=tuple(map(_candidate, data.maybe_objects("candidates"))),
            lines=data.maybe_places("lines"),
        )
    )


def _candidate(data: Fields) -> Candidate:
    return Candidate(data.text("name"), data.maybe_text("language") or "", data.maybe_text("configuration") or "")


def device_question(data: Fields) -> DeviceQueried:
    """Decode a question about the device."""
    return DeviceQueried(
        DeviceQuestion(
            file=data.text("file"),
            line=data.integer("line"),
            function=data.text("function"),
            asked=data.text("asked"),
            answer=data.text("answer"),
            as_target=data.flag("as_target"),
        )
    )
