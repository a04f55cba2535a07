"""Put options of torch's configuration back to the values of another environment."""

import importlib
import json
import re
from collections.abc import Iterable

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.capture_request import TorchSetting


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
    match = re.fullmatch(r"(?P<module>.*?\._?config)\.(?P<option>.+)", name)
    if match is None:
        raise TargetError(f"{name} is no option of torch's configuration", "leave it as it is")
    return match["module"], match["option"]
