"""The sources of Triton kernels in a wrapper that Inductor emitted."""

import ast
from collections.abc import Iterator


def sources_of(wrapper: str) -> Iterator[tuple[str, str, str]]:
    """Give of each kernel its name in the wrapper, its name in its source, and that source.

    A wrapper defines a kernel as `name = async_compile.triton('name', '''...''')` (2.11 to 2.13,
    _inductor/codegen/triton.py: `define_kernel`, codegen/wrapper.py: `define_user_defined_triton_kernel`).

    Raises:
        SyntaxError: it is not Python.
    """
    for statement in ast.parse(wrapper).body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=variable)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                    args=[ast.Constant(value=str(name)), ast.Constant(value=str(source)), *_],
                ),
            ):
                yield variable, name, source
