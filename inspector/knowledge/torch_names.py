"""Names in torch that differ between releases, one row for each thing. Hooks look the names up here and take the first
name that the installed torch has, so it does not matter in which patch release or nightly build torch renamed the
thing. A test compares the rows with the installed torch.
"""

from msgspec import Struct


class TorchName(Struct, frozen=True):
    """The names of one thing in torch, by release."""

    what: str
    spelled: tuple[tuple[tuple[int, int], str], ...]
    """Each name with its first release, newest first; an empty name means that the release has no such thing."""
    source: str
    """Where in torch."""

    def of(self, owner: object) -> str | None:
        """Return the first of the names that is an attribute of `owner`, or None if none is."""
        # The installed torch is asked, and not its version: a nightly build has the number of the release to come.
        return next((name for _, name in self.spelled if name and hasattr(owner, name)), None)

    def needed_of(self, owner: object) -> str:
        """Return the first of the names that is an attribute of `owner`.

        Raises:
            AttributeError: none of the names is an attribute.
        """
        name = self.of(owner)
        if name is None:
            known = " or ".join(name for _, name in self.spelled if name)
            raise AttributeError(f"this torch has no {known}: {self.what} ({self.source})")
        return name


TENSOR_ATTRIBUTE = TorchName(
    "how Dynamo traces an attribute of a tensor or a constant",
    # Newest first: a release that renames a thing may keep the old name for callers outside of it.
    (((2, 14), "tp_getattro_impl"), ((2, 11), "var_getattr")),
    "_dynamo/variables/tensor.py, TensorVariable",
)
KERNEL_ANALYSIS = TorchName(
    "which arguments a user's Triton kernel accesses",
    (((2, 13), "identify_accessed_tensors"), ((2, 11), "identify_mutated_tensors")),
    "_higher_order_ops/triton_kernel_wrap.py",
)
KERNEL_EPILOGUE = TorchName(
    "the code of a user's Triton kernel with an epilogue",
    (((2, 13), "codegen_with_epilogue_fusion"), ((2, 11), "")),
    "_inductor/ir.py, UserDefinedTritonKernel",
)
BACKWARD_COMPILER = TorchName(
    "what compiles a backward on its first call",
    (((2, 13), "_AutogradBackwardCompiler"), ((2, 11), "")),
    "_functorch/_aot_autograd/runtime_wrappers.py",
)
ALLOCATOR_CHECK = TorchName(
    "whether the caching allocator serves CUDA graphs",
    (((2, 13), "check_caching_allocator_for_cudagraphs"), ((2, 11), "")),
    "_inductor/cudagraph_utils.py",
)
LIBDEVICE_PATH = TorchName(
    "where Triton finds libdevice",
    (((2, 12), "_set_triton_libdevice_path"), ((2, 11), "")),
    "_inductor/runtime/compile_tasks.py",
)
DECLARED_SHAPES = TorchName(
    "what torch.compile(dynamic_shapes=...) declares",
    (((2, 14), "_dynamic_shapes_spec"), ((2, 11), "")),
    "_dynamo/config.py",
)
STATIC_SOURCES = TorchName(
    "sizes and numbers that TORCH_COMPILE_STATIC_SOURCES keeps static",
    (((2, 15), "is_static_source"), ((2, 11), "")),
    "_dynamo/variables/builder.py",
)
NAMES = (
    TENSOR_ATTRIBUTE,
    KERNEL_ANALYSIS,
    KERNEL_EPILOGUE,
    BACKWARD_COMPILER,
    ALLOCATOR_CHECK,
    LIBDEVICE_PATH,
    DECLARED_SHAPES,
    STATIC_SOURCES,
)
