"""Text that written modules contain."""

INTERPRETER = '''class Interpreted:
    """A kernel that Triton's interpreter runs on the CPU, one program of the grid after the other."""

    def __init__(self, kernel) -> None:
        self._kernel = kernel

    def __getitem__(self, grid):
        return partial(self._launch, grid)

    def _launch(self, grid, *args, **kwargs) -> None:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        kernel, named = self._kernel, dict(kwargs)
        for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):  # about a GPU only
            named.pop(name, None)
        while not isinstance(kernel, JITFunction):
            if hasattr(kernel, "configs"):  # any configuration computes the same
                named |= kernel.configs[0].kwargs
            else:
                arguments = dict(zip(kernel.arg_names, args)) | named
                named |= {name: function(arguments) for name, function in kernel.values.items()}
            kernel = kernel.fn
        before = JITFunction.__call__
        JITFunction.__call__ = lambda helper, *values, **words: InterpretedFunction(helper.fn)(*values, **words)
        try:
            with torch.utils._python_dispatch._disable_current_modes():
                InterpretedFunction(kernel.fn)[grid](*args, **named)
        finally:
            JITFunction.__call__ = before
'''
