"""Say what each instruction that torch put into a function is for, by following which one feeds which.

The shapes are those of torch 2.11 and 2.13: _dynamo/output_graph.py (`compile_subgraph`), codegen.py
(`make_call_generated_code`), symbolic_convert.py (`create_call_resume_at`, `codegen_return_with_pops`) and
resume_execution.py. What has none of them is "other inserted code".
"""

from collections.abc import Iterator, Mapping

from ctrace.inspector.bytecode import Code, Rewritten
from ctrace.inspector.changes import change_by, change_by_call, is_unchanged
from ctrace.inspector.contexts import claim_contexts
from ctrace.inspector.pieces import Claims, PieceKind, Role
from ctrace.inspector.resumes import CALLED, Resume, resume_of, resume_point
from ctrace.inspector.sites import resumed
from ctrace.inspector.stackforms import (
    Attribute,
    Call,
    Form,
    Function,
    ListOf,
    Name,
    Value,
    is_graph,
    is_path,
    output_number,
    root_of,
    written,
)
from ctrace.inspector.stackwalk import Step, called_by

_TIMERS = {"record_pregraph_bytecode_enter": "starts", "record_pregraph_bytecode_exit": "stops"}
_MOVES = frozenset(("SWAP", "NOP", "PUSH_NULL", "PRECALL", "KW_NAMES", "COPY", "TO_BOOL"))
_STARTS = frozenset(("RESUME", "MAKE_CELL", "COPY_FREE_VARS"))
_BRANCHES = ("POP_JUMP", "JUMP_IF")
_LIST_WORK = frozenset(("STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "LIST_EXTEND", "LIST_APPEND"))
_STAR_FLAGS = (0x04, 0x08)
_PACKS = "packs the values for the resume function into torch's lists"
_UNUSED = "torch's lists for a resume function, which is not needed: dropped"
_START = Role(PieceKind.START, "begins as before")
_OTHER = Role(PieceKind.OTHER, "other inserted code")


def roles_of(
    compile_id: str, codes: Mapping[str, Rewritten], steps: Mapping[int, Step], own: Mapping[int, int | None]
) -> list[Role]:
    """Give each instruction of a compilation's new code a role; `own` are the user's, by new index: their lines."""
    explaining = _Explaining(compile_id, codes, steps, own)
    explaining.claim_all()
    return [explaining.claims.roles.get(at, _OTHER) for at in range(len(explaining.after.instructions))]


def surely_torchs(steps: Mapping[int, Step]) -> frozenset[int]:
    """Find what surely is not the user's: the call of a graph, torch's clock, and what makes their arguments."""
    found: set[int] = set()
    for step in steps.values():
        function = called_by(step)
        if function is not None and (is_graph(function[0].form) or _timer(function[0].form)):
            found.add(step.index)
            ahead = list(step.taken)
            while ahead:
                value = ahead.pop()
                found.add(value.made)
                ahead += value.parts
    return frozenset(found)


def _timer(form: Form) -> str | None:
    return _TIMERS.get(form.name) if isinstance(form, Attribute) and is_path(form) else None


def _resume(form: Form) -> str | Code | None:
    """Give the global of a resume function: called as it is, or what makes it with its closure; 2.11 has its code."""
    if isinstance(form, Function):
        return form.code if resume_point(form.code) is not None else None
    made = form.function if isinstance(form, Call) else form
    return made.name if isinstance(made, Name) and made.scope == "global" and made.name.startswith(CALLED) else None


class _Explaining:
    """The rules; each claims what it is sure of, and leaves the rest to the next."""

    def __init__(
        self, compile_id: str, codes: Mapping[str, Rewritten], steps: Mapping[int, Step], own: Mapping[int, int | None]
    ) -> None:
        self.id, self.codes, self.steps = compile_id, codes, steps
        self.before, self.after = codes[compile_id].before, codes[compile_id].after
        self.own = own
        self.claims = Claims(self._own_roles())
        self.torchs = frozenset(self.after.variables) - frozenset(self.before.variables)
        self.frame = Role(PieceKind.FRAME, _PACKS if list(self._resumes()) else _UNUSED)
        self.takers = {id(value): step for step in steps.values() for value in step.taken}

    def claim_all(self) -> None:
        self._starts()
        self._timers()
        self._graph_calls()
        self._resume_values()
        self._operands()
        claim_contexts(self.claims, self.after, self.steps, self.torchs)
        self._branches()
        self._changes()
        self._variables()
        self._resume_calls()
        self._lists()
        self._returns()
        self._kept()
        self._moves()

    def _own_roles(self) -> dict[int, Role]:
        """Give the user's instructions of one line one role."""
        lines = {line: Role(PieceKind.OWN, f"{_line(line)} runs as it did") for line in self.own.values()}
        starts = {at for at in self.own if self.after.instructions[at].opname in _STARTS}
        return {at: _START if at in starts else lines[line] for at, line in self.own.items()}

    def _free(self) -> Iterator[Step]:
        return (step for _, step in sorted(self.steps.items()) if self.claims.is_free(step.index))

    def _free_calls(self) -> Iterator[tuple[Step, Value, tuple[Value, ...]]]:
        for step in self._free():
            if (call := called_by(step)) is not None:
                yield (step, *call)

    def _whole(self, step: Step, role: Role) -> None:
        """Claim an instruction, and all that made what it takes."""
        self.claims.claim(step.index, role)
        for value in step.taken:
            self.claims.tree(value, role)

    def _taker(self, step: Step) -> Step | None:
        """Give what takes the value that an instruction puts."""
        return self.takers.get(id(step.put[0])) if step.put else None

    def _dropped(self, step: Step) -> Step | None:
        """Give what drops the result of a call."""
        taker = self._taker(step)
        return taker if taker is not None and taker.instruction.opname == "POP_TOP" else None

    def _starts(self) -> None:
        for step in self._free():
            if step.instruction.opname in _STARTS:
                self.claims.claim(step.index, _START)

    def _timers(self) -> None:
        for step, function, _ in self._free_calls():
            if (does := _timer(function.form)) is not None:
                role = Role(PieceKind.TIMER, f"{does} torch's clock for loading the inputs")
                self._whole(step, role)
                if (taker := self._taker(step)) is not None:
                    self.claims.claim(taker.index, role)

    def _graph_calls(self) -> None:
        for step, function, arguments in self._free_calls():
            if not is_graph(function.form):
                continue
            for number, value in enumerate(arguments):
                self.claims.tree(value, Role(PieceKind.INPUT, f"input {number}: {self._named(value, step)}"))
            many = f"{len(arguments) or 'no'} input{'' if len(arguments) == 1 else 's'}"
            early = f"loads the function of graph {self.id}"
            self._whole(step, Role(PieceKind.GRAPH, f"calls graph {self.id} with {many}", (self.id,), early))
            if (taker := self._taker(step)) is not None and taker.instruction.opname in ("STORE_FAST", "POP_TOP"):
                keeps = "keeps" if taker.instruction.opname == "STORE_FAST" else "drops"
                self.claims.claim(taker.index, Role(PieceKind.GRAPH, f"{keeps} what graph {self.id} returned", (self.id,)))

    def _named(self, value: Value, step: Step) -> str:
        """Write where an input comes from."""
        text, root = written(value.form, step.lists), root_of(value.form)
        if root is None:
            return text
        if root.scope == "closure":
            return f"{text} (of the enclosing function)"
        if root.scope == "global":
            return f"{text} (a global)" if root.name in self.before.names else text
        return f"{text} (an argument)" if isinstance(value.form, Name) and self._is_argument(root.name) else text

    def _is_argument(self, name: str) -> bool:
        code = self.before
        stars = sum(code.flags & flag != 0 for flag in _STAR_FLAGS)
        return resume_point(code) is None and name in code.variables[: code.arguments + code.keyword_only + stars]

    def _resumes(self) -> Iterator[tuple[Step, str | Code, Value]]:
        """Give the calls of resume functions, and the list of what they get."""
        for step, function, arguments in self._free_calls():
            name = _resume(function.form)
            if name is not None and step.instruction.opname == "CALL_FUNCTION_EX" and arguments:
                yield step, name, arguments[0]

    def _resume_values(self) -> None:
        for step, name, values in self._resumes():
            resume = resume_of(name, self.before, self.codes)
            # The first two are torch's own lists.
            items = step.lists.get(values.form.number, ())[2:] if isinstance(values.form, ListOf) else ()
            names = resume.arguments if len(resume.arguments) == len(items) else ("",) * len(items)
            for item, name_ in zip(items, names, strict=True):
                self._pass(item.root, "" if name_.startswith("___stack") else name_, step)

    def _pass(self, value: Value, name: str, step: Step) -> None:
        text = written(value.form, step.lists)
        told = f"{name} = {text}" if name not in ("", text) else text
        kind = PieceKind.PASS if output_number(value.form) is None else PieceKind.OUTPUT
        if isinstance(value.form, ListOf) and not name:
            return
        self.claims.tree(value, Role(kind, f"for the resume function: {told}"))

    def _operands(self) -> None:
        for at, number in sorted(self.own.items()):
            step = self.steps.get(at)
            if step is None or step.instruction.opname in _MOVES:
                continue
            values = [value for value in step.taken if self.claims.is_free(value.made)]
            line = _line(number)
            told = ", ".join(_operand_texts(step))
            role = Role(PieceKind.OPERAND, f"what {line} needs: {told}" if told else f"what {line} needs")
            for value in values:
                self.claims.tree(value, role)

    def _branches(self) -> None:
        for step in self._free():
            if step.instruction.opname.startswith(_BRANCHES) and step.taken:
                form = step.taken[-1].form
                told = written(form, step.lists) + ("" if output_number(form) is None else " of the graph")
                line = _line(step.instruction.line)
                text = f"branches on {told}, as {line} does; each side goes on by itself"
                self._whole(step, Role(PieceKind.BRANCH, text, early=f"what {line} branches on: {told}"))

    def _changes(self) -> None:
        for step in self._free():
            drop = self._dropped(step) if called_by(step) is not None else None
            told = change_by(step) if drop is None else change_by_call(step)
            if told:
                text = f"leaves {step.instruction.text} in its cell" if is_unchanged(step) else f"replays {told}"
                role = Role(PieceKind.CHANGE, text, early=f"to replay: {told}")
                self._whole(step, role)
                if drop is not None:
                    self.claims.claim(drop.index, role)

    def _variables(self) -> None:
        for step in self._free():
            name = step.instruction.text
            if step.instruction.opname == "STORE_FAST" and name not in self.torchs:
                told = written(step.taken[0].form, step.lists)
                self._whole(step, Role(PieceKind.VARIABLE, f"{name} = {told}", early=f"for {name}: {told}"))

    def _resume_calls(self) -> None:
        for step, name, values in list(self._resumes()):
            role = self._resume_role(resume_of(name, self.before, self.codes))
            self.claims.claim(step.index, role)
            for each in step.taken:
                self.claims.tree(each, self.frame if each is values else role)
            taker = self._taker(step)
            if taker is not None and taker.instruction.opname == "RETURN_VALUE":
                self.claims.claim(taker.index, role)

    def _resume_role(self, resume: Resume) -> Role:
        line = f" at line {resume.line}" if resume.line is not None else ""
        ids = ", ".join(resume.ids)
        how = f"compiled as {ids}" if ids else "which this run did not compile: never reached, or left in eager"
        text = f"goes on in {resumed(self.before.name)[0]}{line}, in a resume function, {how}; returns what it returns"
        return Role(PieceKind.RESUME, text, resume.ids, f"loads the resume function{f' {ids}' if ids else ''}")

    def _lists(self) -> None:
        """Claim what works on lists that torch made, and what drops one."""
        for step in self._free():
            name = step.instruction.opname
            if any(isinstance(value.form, ListOf) for value in step.taken) and (name in _LIST_WORK or name == "POP_TOP"):
                self._whole(step, self.frame)

    def _returns(self) -> None:
        for step in self._free():
            if step.instruction.opname == "RETURN_VALUE":
                told = written(step.taken[0].form, step.lists)
                self._whole(step, Role(PieceKind.RETURN, f"returns {told}", early=f"to return: {told}"))
            elif step.instruction.opname == "RETURN_CONST":
                self.claims.claim(step.index, Role(PieceKind.RETURN, f"returns {step.instruction.text}"))

    def _kept(self) -> None:
        """Claim the work on torch's own variables: what is kept belongs to what it was made for."""
        cleanup = Role(PieceKind.CLEANUP, "deletes torch's own variables")
        for step in self._free():
            name, variable = step.instruction.opname, step.instruction.text
            if name == "DELETE_FAST" and variable in self.torchs:
                self.claims.claim(step.index, cleanup)
            elif name == "STORE_FAST" and variable in self.torchs:
                if (role := self._claimed(step.taken[0])) is not None:
                    self._whole(step, role)

    def _claimed(self, value: Value) -> Role | None:
        """Give the role of the nearest instruction, of those that made a value, that torch put there."""
        ahead = [value]
        while ahead:
            each = ahead.pop(0)
            if not self.claims.is_free(each.made) and not self.claims.is_own(each.made):
                return self.claims.roles[each.made]
            ahead += each.parts
        return None

    def _moves(self) -> None:
        """Give what only moves values to what comes next; before the user's own code it arranges what that needs."""
        for step in sorted(self._free(), key=lambda each: -each.index):
            if step.instruction.opname in _MOVES:
                role = self._moved_for(step.index)
                if role is not None:
                    self.claims.claim(step.index, role)

    def _moved_for(self, index: int) -> Role | None:
        before = self.claims.roles.get(index - 1)
        if before is self.frame:
            return before
        index += 1
        while self.claims.kind(index) is PieceKind.CLEANUP:
            index += 1
        return self._last_operand(index) if self.claims.is_own(index) else self.claims.roles.get(index)

    def _last_operand(self, index: int) -> Role | None:
        kinds = (role for at in range(index, -1, -1) if (role := self.claims.roles.get(at)) is not None)
        return next((role for role in kinds if role.kind is PieceKind.OPERAND), None)


def _line(number: int | None) -> str:
    return "your own code" if number is None else f"line {number}"


def _operand_texts(step: Step) -> list[str]:
    """Write what the user's own instruction works on; a call as a call."""
    if called_by(step) is not None and step.put:
        return [written(step.put[0].form, step.lists)]
    return [written(value.form, step.lists) for value in step.taken]
