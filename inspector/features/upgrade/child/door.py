"""Put options and functions of torch back to those of another environment, and record which functions are called."""

import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.upgrade.child.earlier_functions import put_back, record_calls
from ctrace.inspector.runs.capture_request import CaptureRequest, TorchSetting


def prepare(request: CaptureRequest) -> None:
    """Carry out what a request says about torch, before the target is loaded.

    Raises:
        TargetError: this torch has no such option or function.
    """
    configure(request.config)
    for each in request.sources:
        put_back(each)
    if request.called:
        record_calls(Path(request.called))


def configure(settings: Iterable[TorchSetting]) -> None:
    """Set options for this process.

    Raises:
        TargetError: this torch has no such option.
    """
    for each in settings:
        module, option = owner_of(each.name)
        owner = importlib.import_module(module)
        try:
            setattr(owner, option, json.loads(each.value))
        except (AttributeError, TypeError) as error:
            raise TargetError(f"{each.name} cannot be set: {error}", "leave it as it is") from None


def owner_of(name: str) -> tuple[str, str]:
    """Split `torch._inductor.config.cpp.threads` into the module and the option in it.

    Raises:
        TargetError: it is not of that form.
    """
    # The first `config` ends the module: options may have a dot in them, as those of a nested group do.
    match = re.fullmatch(r"(?P<module>.*?\._?config)\.(?P<option>.+)", name)
    if match is None:
        raise TargetError(f"{name} is no option of torch's configuration", "leave it as it is")
    return match["module"], match["option"]
