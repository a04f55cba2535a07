"""What a log says of a run with `--target`; `decode/` makes these."""

from msgspec import Struct

from ctrace.inspector.model.target import DeviceQuestion, Undecided


class ChoiceLeftOpen(Struct, frozen=True):
    """Torch would have timed something on the device."""

    choice: Undecided


class DeviceQueried(Struct, frozen=True):
    """The program asked about the device."""

    question: DeviceQuestion


VirtualEvent = ChoiceLeftOpen | DeviceQueried
