"""Torch's names for values, turned into the user's: `L['self']._modules['fc'].weight` is `self.fc.weight`."""

import re

_MODULES = re.compile(r"\.(?:(?:__dict__\[')?(?:_modules|_parameters|_buffers)(?:'\])?|__dict__)\['([^'\]]+)'\]")
_CLOSURE = re.compile(r"(?:\w+\.)?__closure__\[(\d+)\]\.cell_contents")
_SCOPE = re.compile(r"\b[LG]\['([^'\]]+)'\]")
_WRAPPED = re.compile(r"\bL\['fn'\](?=\._(?:modules|parameters|buffers)|\.training|\.__(?:dict|class)__)")
_IMPORTED = re.compile(r"\b__import_(\w+)")
_BUILTINS = re.compile(r"\b__builtins_dict__\w*(?:\['(?P<name>[^'\]]+)'\])?")
_NUMPY = re.compile(r"___from_numpy\(((?:[^()]|\([^()]*\))*)\)")
_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")


def user_name(source: str) -> str:
    """Name a guard's source as the user would write it."""
    name = _NUMPY.sub(r"\1", source.strip()).removeprefix("___from_numpy(")
    name = _WRAPPED.sub("model", name)
    name = _SCOPE.sub(r"\1", name)
    name = _MODULES.sub(lambda match: _member(match[1]), name)
    name = _CLOSURE.sub(r"closure variable \1", name)
    name = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), name)
    name = _BUILTINS.sub(lambda match: f"builtins.{match['name']}" if match["name"] else "builtins", name)
    name = _SIZE.sub(r".\1(\2)", name)
    return re.sub(r"___stack(\d+)", "the value that the broken call returned", name)


def _member(name: str) -> str:
    return f"[{name}]" if name.isdecimal() else f".{name}"
