"""Convert torch's names for values to the user's: `L['self']._modules['fc'].weight` is `self.fc.weight`."""

import re
from functools import lru_cache

_OF_CLASS = re.compile(r"dict\(type\((.+?)\)\.__dict__\)\['([^'\]]+)'\]")
"""An attribute of a class (`TypeDictSource` of _dynamo/source.py, 2.13)."""
_MODULES = re.compile(r"\.(?:(?:__dict__\[')?(?:_modules|_parameters|_buffers)(?:'\])?|__dict__)\['([^'\]]+)'\]")
_CLOSURE = re.compile(r"(?:(?<!\w)\w+\.)?__closure__\[(\d+)\]\.cell_contents")
_IN_CLOSURE = re.compile(r"(?P<before>len\()?.*closure variable \d+(?P<after>.*)", re.DOTALL)
_HINT = re.compile(r'guard on "(?P<name>\w+)"')
_SCOPE = re.compile(r"\b[LG]\['([^'\]]+)'\]")
_WRAPPED = re.compile(
    r"(?:\bL\['fn'\]|(?<![\w.'])fn)(?=\._(?:modules|parameters|buffers)|\.training|\.__(?:dict|class)__)"
)
_IMPORTED = re.compile(r"\b__import_(\w+)")
_INSTALLED = re.compile(r"\b(?:___module|__subclass)_(\w+?)_\d+_c\d+\b")
"""A global that torch adds for a module, class or function (2.13, `install_global` in _dynamo/output_graph.py)."""
_BUILTINS = re.compile(r"\b__builtins_dict__\w*(?:\['(?P<name>[^'\]]+)'\])?")
_NUMPY = re.compile(r"___from_numpy\(((?:[^()]|\([^()]*\))*)\)")
_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")
_BY_KEY = re.compile(r"\[list\(dict\.keys\([^()]*\)\)\[(\d+)\]\]")
_BROKEN = re.compile(r"___stack(\d+)")
_KEY = re.compile(r"list\(dict\.keys\(([^()]*)\)\)\[(\d+)\]")
RESULT = "the value that the broken call returned"
"""How a value that is passed across a break is called; torch calls it `___stack0`."""


@lru_cache(maxsize=50_000)
def user_name(source: str) -> str:
    """Return the source of a guard as the user would write it."""
    # The tests for substrings take a tenth of the time of a search that finds nothing, as most of these do.
    name = source.strip()
    if "___from_numpy(" in name:
        name = _NUMPY.sub(r"\1", name).removeprefix("___from_numpy(")
    if "fn" in name:
        name = _WRAPPED.sub("model", name)
    if "['" in name:
        name = _OF_CLASS.sub(r"type(\1).\2", _SCOPE.sub(r"\1", name))
        name = _MODULES.sub(lambda match: _member(match[1]), name)
    if "__" in name:
        name = _without_dunders(name)
    if "()[" in name:
        name = _SIZE.sub(r".\1(\2)", name)
    if "dict.keys(" in name:
        name = _KEY.sub(r"key \2 of \1", _BY_KEY.sub(r"[key \1]", name))
    if "___stack" in name:
        return _BROKEN.sub(RESULT, name)
    return name


def _without_dunders(name: str) -> str:
    """Replace names that torch or Python makes, which have two underscores."""
    name = _CLOSURE.sub(r"closure variable \1", name)
    # Torch writes `__import_torch_dot_nn` for the module torch.nn (2.13, _dynamo/symbolic_convert.py, `import_source`).
    name = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), name)
    name = _INSTALLED.sub(r"\1", name)
    return _BUILTINS.sub(lambda match: f"builtins.{match['name']}" if match["name"] else "builtins", name)


def _member(name: str) -> str:
    if name.isdecimal():
        return f"[{name}]"
    return f".{name}"


def closure_name(name: str, hint: str) -> str:
    """Return the name of an enclosing function's variable from torch's hint, such as `guard on "k"`."""
    hinted, match = _HINT.search(hint), _IN_CLOSURE.fullmatch(name)
    if hinted and match:
        return f"{match['before'] or ''}{hinted['name']}{match['after']}"
    return name


def argument_name(name: str, arguments: tuple[str, ...]) -> str:
    """Replace `args[0]` or `kwargs['mask']`, which torch's wrapper around a function has, by the parameter's name."""

    def parameter(match: re.Match[str]) -> str:
        at = int(match[1])
        if at < len(arguments):
            return arguments[at]
        return match[0]

    if not arguments:
        return name
    return re.sub(r"\bkwargs\['(\w+)'\]", r"\1", re.sub(r"\bargs\[(\d+)\]", parameter, name))


def optimizer_name(name: str) -> str:
    """Replace `self` in an optimizer's code, or `args[0]` in torch's wrapper around its step, by `optimizer`."""
    return re.sub(r"^(len\()?(?:self|args\[0\])(?=[.\[])", r"\1optimizer", name)
