"""The kernels of a wrapper."""

from ctrace.inspector.features.gpus.child.compile_kernels import sources_of

WRAPPER = """\
async_compile = AsyncCompile()
triton_poi_0 = async_compile.triton('triton_poi_0', '''
import triton
''', device_str='cuda')
add_0 = async_compile.triton('add', 'def add(): ...', device_str='cuda')
cpp_1 = async_compile.cpp_pybinding(['float*'], 'void f() {}')
multi = async_compile.multi_kernel('multi', [triton_poi_0])
def call(args):
    triton_poi_0.run()
"""


def test_those_of_triton() -> None:
    assert list(sources_of(WRAPPER)) == [
        ("triton_poi_0", "triton_poi_0", "\nimport triton\n"), ("add_0", "add", "def add(): ..."),
    ]  # fmt: skip
