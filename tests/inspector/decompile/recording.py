"""Objects that record every operation on them, and functions to run code on them. Does not need pytest."""

import itertools
from types import CellType, CodeType, FunctionType

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, compiled


class Boom(Exception):  # noqa: N818
    """What a recorder raises at the step `fail_at`."""


class Log:
    """Steps in order; the step number `fail_at` raises, and truth follows the bits of `seed`."""

    def __init__(self, seed, fail_at):
        self.steps, self.seed, self.fail_at = [], seed, fail_at

    def add(self, *step):
        self.steps.append(step)
        if len(self.steps) == self.fail_at:
            raise Boom(str(len(self.steps)))

    def bit(self):
        self.seed, bit = self.seed // 2, self.seed % 2
        return bool(bit)


def _operator(name):
    def method(self, *others):
        log = object.__getattribute__(self, "log")
        log.add(name, self, *others)
        return Recorder(log, f"{name}{len(log.steps)}")

    return method


class Recorder:
    def __init__(self, log, name):
        object.__setattr__(self, "log", log)
        object.__setattr__(self, "name", name)

    def __getattribute__(self, name):
        if name == "__class__":
            return Recorder
        log = object.__getattribute__(self, "log")
        log.add("get", self, name)
        return Recorder(log, f"{name}{len(log.steps)}")

    def __setattr__(self, name, value):
        object.__getattribute__(self, "log").add("set", self, name, value)

    def __delattr__(self, name):
        object.__getattribute__(self, "log").add("del", self, name)

    def __setitem__(self, key, value):
        object.__getattribute__(self, "log").add("setitem", self, key, value)

    def __delitem__(self, key):
        object.__getattribute__(self, "log").add("delitem", self, key)

    def __call__(self, *args, **kwargs):
        log = object.__getattribute__(self, "log")
        log.add("call", self, args, tuple(kwargs.items()))
        return Recorder(log, f"call{len(log.steps)}")

    def __bool__(self):
        log = object.__getattribute__(self, "log")
        log.add("bool", self)
        return log.bit()

    def __contains__(self, item):
        log = object.__getattribute__(self, "log")
        log.add("in", self, item)
        return log.bit()

    def __iter__(self):
        log = object.__getattribute__(self, "log")
        log.add("iter", self)
        for number in range(2):
            log.add("next", self)
            yield Recorder(log, f"item{number}_{len(log.steps)}")

    def __format__(self, spec):
        object.__getattribute__(self, "log").add("format", self, spec)
        return f"<{spec}>"

    def __repr__(self):
        return "Recorder"

    def __enter__(self):
        object.__getattribute__(self, "log").add("enter", self)
        return self

    def __exit__(self, *error):
        log = object.__getattribute__(self, "log")
        log.add("exit", self, *error[:1])
        return log.bit()

    def keys(self):
        return ["left", "right"]

    __getitem__ = _operator("item")
    __eq__, __lt__, __gt__ = _operator("eq"), _operator("lt"), _operator("gt")
    __add__, __sub__, __mul__, __neg__ = map(_operator, ("add", "sub", "mul", "neg"))
    __iadd__, __imul__ = _operator("iadd"), _operator("imul")


def shown(value, seen=None):
    """Describe a value so that its content and its aliases can be compared."""
    seen = {} if seen is None else seen
    if isinstance(value, list | dict) and id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if type(value) is Recorder:
        return object.__getattribute__(value, "name")
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(item, seen) for item in value]
    if isinstance(value, dict):
        return "dict", [(shown(key, seen), shown(item, seen)) for key, item in value.items()]
    if isinstance(value, slice):
        return "slice", [shown(each, seen) for each in (value.start, value.stop, value.step)]
    if isinstance(value, FunctionType):
        return "function", value.__name__, value.__doc__, shown(value.__defaults__ or (), seen)
    if isinstance(value, CellType):
        return "cell", shown(value.cell_contents, seen)
    return type(value).__name__, str(value)


def outcome(code: CodeType, cells: dict, seed: int, fail_at: int, keep=()):
    """Run a code object on new recorders. Return its result or exception, and all steps."""
    log = Log(seed, fail_at)
    names = {*code.co_names, "len", "Boom", "ValueError", "slice", "type", "zip"}
    world: dict[str, object] = {name: Recorder(log, name) for name in names if name not in keep}
    builtins = {"Boom": Boom, "ValueError": ValueError, "len": len, "type": type, "KeyError": KeyError}
    for name in builtins:
        world.pop(name, None)
    world["__builtins__"] = builtins
    held = {name: CellType(Recorder(log, name) if value is None else value) for name, value in cells.items()}
    closure = tuple(held[name] for name in code.co_freevars)
    function = FunctionType(code, world, code.co_name, None, closure)
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = [Recorder(log, f"arg{number}") for number in range(count)]
    positional, keyword_names = arguments[: code.co_argcount], code.co_varnames[code.co_argcount : count]
    keywords = dict(zip(keyword_names, arguments[code.co_argcount :], strict=True))
    if code.co_flags & 4:
        positional += [Recorder(log, "more0"), Recorder(log, "more1")]
    if code.co_flags & 8:
        keywords["other"] = Recorder(log, "other")
    try:
        result = shown(function(*positional, **keywords))
        if isinstance(result, tuple) and result[0] == "function":
            result = result, shown(function(*positional, **keywords)())
    except Exception as error:
        context = error.__context__
        result = "raised", type(error).__name__, str(error), type(context).__name__, str(context)
    log.fail_at = 0
    state = {name: shown(cell.cell_contents) for name, cell in held.items() if name in code.co_freevars}
    globals_after = {name: shown(value) for name, value in world.items() if name in code.co_names}
    return result, [shown(step) for step in log.steps], state, globals_after


def again(code: CodeType, source: FunctionSource) -> CodeType:
    """Compile a reconstructed text."""
    return compiled(source.text, (*source.free, *(name for name, _ in source.constants)), code.co_flags)


def difference(code: CodeType, data: Code, source: FunctionSource, seeds=range(4)):
    """Return the first run that differs between the two; each run raises at another step. None for no difference."""
    other = again(code, source)
    constants = {name: code.co_consts[number] for name, number in source.constants}
    cells = dict.fromkeys({*code.co_freevars, *other.co_freevars}) | constants
    for seed in seeds:
        for fail_at in itertools.chain((0,), range(1, 40)):
            first = outcome(code, cells, seed, fail_at)
            second = outcome(other, cells, seed, fail_at)
            free = set(first[2]) & set(second[2])
            parts = [(*run[:2], {name: run[2][name] for name in free}) for run in (first, second)]
            if parts[0] != parts[1]:
                return seed, fail_at, parts
            if fail_at > len(first[1]):
                break
    return None
