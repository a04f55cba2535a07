"""What the rules that explain inserted bytecode work on, and what they do with it."""

from collections.abc import Collection, Iterator, Mapping

from ctrace.inspector.bytecode.rewrites.pieces import Claims, PieceKind, Role
from ctrace.inspector.bytecode.rewrites.resumes import called_resume
from ctrace.inspector.bytecode.rewrites.stackforms import Value
from ctrace.inspector.bytecode.rewrites.stackwalk import Step, called_by
from ctrace.inspector.model.bytecode import Rewritten

STARTS = frozenset(("RESUME", "MAKE_CELL", "COPY_FREE_VARS"))
_PACKS = "packs the values for the resume function into torch's lists"
_UNUSED = "torch's lists for a resume function, which is not needed: dropped"
START = Role(PieceKind.START, "begins as before")


class Scene:
    """A compilation's new code, followed step by step, and the roles given so far."""

    def __init__(
        self,
        compile_id: str,
        codes: Mapping[str, Rewritten],
        steps: Mapping[int, Step],
        own: Mapping[int, int | None],
        graphs: Collection[str],
    ) -> None:
        """Begin; `own` are the instructions of the user's, by new index, and their lines."""
        self.id, self.codes, self.steps, self.own = compile_id, codes, steps, own
        self.graph = (compile_id,) if compile_id in graphs else ()
        """What leads to the graph; empty where the run has none, as when its compilation failed in the end."""
        self.before, self.after = codes[compile_id].before, codes[compile_id].after
        self.claims = Claims(self._own_roles())
        self.torchs = frozenset(self.after.variables) - frozenset(self.before.variables)
        """Local variables that torch added."""
        resumes = any(called_resume(function.form) is not None for _, function, _ in self.free_calls())
        self.frame = Role(PieceKind.FRAME, _PACKS if resumes else _UNUSED)
        """One role for all of torch's lists."""
        self._takers = {id(value): step for step in steps.values() for value in step.taken}

    def _own_roles(self) -> dict[int, Role]:
        """Give the user's instructions of one line one role."""
        lines = {line: Role(PieceKind.OWN, f"{line_words(line)} runs as it did") for line in self.own.values()}
        starts = {at for at in self.own if self.after.instructions[at].opname in STARTS}
        return {at: START if at in starts else lines[line] for at, line in self.own.items()}

    def free(self) -> Iterator[Step]:
        """Give the steps without a role."""
        return (step for _, step in sorted(self.steps.items()) if self.claims.is_free(step.index))

    def free_calls(self) -> Iterator[tuple[Step, Value, tuple[Value, ...]]]:
        """Give the calls without a role, with function and arguments."""
        for step in self.free():
            if (call := called_by(step)) is not None:
                yield (step, *call)

    def whole(self, step: Step, role: Role) -> None:
        """Claim an instruction, and all that made what it takes."""
        self.claims.claim(step.index, role)
        for value in step.taken:
            self.claims.tree(value, role)

    def taker(self, step: Step) -> Step | None:
        """Give what takes the value that an instruction puts."""
        return self._takers.get(id(step.put[0])) if step.put else None

    def dropped(self, step: Step) -> Step | None:
        """Give what drops the result of a call."""
        taker = self.taker(step)
        return taker if taker is not None and taker.instruction.opname == "POP_TOP" else None

    def keeper(self, variable: str, before: int) -> Step | None:
        """Give what last stored to a variable before an instruction."""
        names = (at for at in range(before - 1, -1, -1) if self.after.instructions[at].text == variable)
        kept = (self.steps.get(at) for at in names if self.after.instructions[at].opname == "STORE_FAST")
        return next(kept, None)

    def loads(self, variable: str) -> list[int]:
        """Give where a variable is read."""
        code = self.after.instructions
        return [at for at, each in enumerate(code) if each.opname == "LOAD_FAST" and each.text == variable]


def line_words(number: int | None) -> str:
    """Name a source line of the user's."""
    return "your own code" if number is None else f"line {number}"
