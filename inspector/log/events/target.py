"""What a log says of a run with `--target`; `decode/` makes these."""

from dataclasses import dataclass

from ctrace.inspector.model.target import DeviceQuestion, Undecided


@dataclass(frozen=True, slots=True)
class ChoiceLeftOpen:
    """Torch would have timed something on the device."""

    choice: Undecided


@dataclass(frozen=True, slots=True)
class DeviceQueried:
    """The program asked about the device."""

    question: DeviceQuestion


VirtualEvent = ChoiceLeftOpen | DeviceQueried
