"""Following a wrapper without running it."""

from ctrace.reports.dump.kernel_parameters import bounds
from ctrace.reports.dump.launch_code import LaunchSite, Wrapper, WrapperTensor, follow
from ctrace.reports.dump.module import read

HEAD = "from torch._inductor.select_algorithm import extern_kernels\naten = torch.ops.aten\n"
INPUTS = """
def get_args():
    global constant0
    constant0 = rand_strided((2, ), (1, ), device='cuda:0', dtype=torch.float64)
    arg0_1 = rand_strided((8, 8), (8, 1), device='cuda:0', dtype=torch.float32)
    arg1_1 = torch.cuda.default_generators[0].graphsafe_get_state()
    return [arg0_1, arg1_1]
"""


def followed(body: str, more: str = "", **dtypes: str) -> Wrapper:
    lines = "".join(f"        {line}\n" for line in ["arg0_1, arg1_1 = args", "args.clear()", *body.splitlines()])
    module = read(f"{HEAD}{more}\nclass Runner:\n    def call(self, args):\n{lines}\nrunner = Runner([])\n{INPUTS}")
    assert module is not None
    return follow(module, dtypes)


def only(wrapper: Wrapper) -> LaunchSite:
    (site,) = wrapper.sites
    return site


def test_reuse_views_and_devices():
    site = only(
        followed(
            "with torch.cuda._DeviceGuard(1):\n"
            "    buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float16)\n"
            "    buf0.zero_()\n"
            "    buf1 = reinterpret_tensor(buf0, (2, 8), (8, 1), 0); del buf0  # reuse\n"
            "    buf2 = reinterpret_tensor(buf1, (8, ), (1, ), 8)\n"
            "    extern_kernels.mm(buf2, buf1, out=buf1)\n"
        )
    )
    assert site.arguments["buf2"] == WrapperTensor("buf0", "torch.float16", (8,), (1,), 8, "cuda:1", zero=True)
    assert site.written == ("buf1",)
    assert site.line == 13


def test_a_tensor_that_is_copied_if_misaligned():
    site = only(
        followed(
            "buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float16)\n"
            "buf0 = copy_if_misaligned(buf0)\n"
            "extern_kernels.mm(buf0, buf0)\n"
        )
    )
    assert site.arguments["buf0"] == WrapperTensor("buf0", "torch.float16", (4, 4), (4, 1), 0, "cuda:0")


def test_a_pool_and_another_dtype():
    site = only(
        followed(
            "pool = empty_strided_cpu((64, ), (1, ), torch.uint8)\n"
            "buf0 = alloc_from_pool(pool, 16, torch.float32, (4, ), (1, ))\n"
            "buf1 = aten.view.dtype(buf0, torch.int32)\n"
            "extern_kernels.mm(buf0, buf1)\n"
        )
    )
    assert site.arguments["buf0"] == WrapperTensor("pool_16", "torch.float32", (4,), (1,), 0, "cpu")
    assert site.arguments["buf1"] == WrapperTensor("pool_16", "torch.int32", (4,), (1,), 0, "cpu")


def test_results_of_a_library():
    wrapper = followed(
        "buf0 = torch.ops.aten.sort.default(arg0_1)\n"
        "buf1 = buf0[1]\n"
        "assert_size_stride(buf1, (8, 8), (8, 1), 'torch.ops.aten.sort.default')\n"
        "buf2 = extern_kernels.mm(buf1, constant0)\n"
        "aten.copy_.default(arg0_1, buf2)\n",
        buf1="torch.int64",
    )
    assert [site.written for site in wrapper.sites] == [("buf0",), ("buf2",), ()]
    values = wrapper.sites[1].arguments
    assert values["buf1"] == WrapperTensor("buf1", "torch.int64", (8, 8), (8, 1), 0, "cpu")
    assert values["constant0"] == WrapperTensor("constant0", "torch.float64", (2,), (1,), 0, "cuda:0")
    assert wrapper.inputs["arg1_1"] is None


def test_parts_of_a_partitioned_graph():
    wrapper = followed(
        "partition0_args = [arg0_1]\n"
        "(buf1,) = self.partitions[0](partition0_args)\n"
        "extern_kernels.mm(buf1, arg0_1, out=buf1)\n",
        more=(
            "def partition_0(args):\n"
            "    arg0_1, = args\n"
            "    buf0 = empty_strided_cpu((8, 8), (8, 1), torch.float32)\n"
            "    extern_kernels.mm(arg0_1, arg0_1, out=buf0)\n"
            "    return (buf0, )\n"
        ),
    )
    first, second = wrapper.sites
    assert (first.line, first.arguments["arg0_1"]) == (6, wrapper.inputs["arg0_1"])
    assert second.arguments["buf1"] == first.arguments["buf0"]


def test_a_recursive_partition_terminates():
    wrapper = followed(
        "self.partitions[0]([arg0_1])\nbuf0 = self.partitions[0]([arg0_1])\n",
        more="def partition_0(args):\n    return self.partitions[0](args)\n",
    )
    assert wrapper.sites == ()


def test_only_library_calls():
    module = read(
        f"{HEAD}class Runner:\n    def call(self, args):\n        pass\nrunner = Runner([])\ncall = runner.call\n"
    )
    assert module is not None
    assert len(module.header) == 1
    assert len(module.kept) == 3


def test_bounds_lead_back_to_the_load():
    source = """
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = tl.full([XBLOCK], 100, tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert((0 <= tmp4) & (tmp4 < 50), "index out of bounds: 0 <= tmp4 < 50")
    tmp5 = tl.load(in_ptr1 + (tmp4), None)
    tmp6 = tmp5 + tmp5
    """
    assert bounds(source) == {"in_ptr0": 50}
    assert bounds(source.replace("index out of bounds", "")) == {"in_ptr0": 100}
    assert bounds("tmp0 = tmp1 + tmp0\ntmp1 = tmp0\nindex out of bounds: 0 <= tmp0 < 5") == {}


def test_long_chains_take_linear_time():
    chain = "".join(f"tmp{at} = tmp{at - 1} + tmp{at - 2}\n" for at in range(2, 500))
    source = f"tmp0 = tl.load(in_ptr0)\ntmp1 = tmp0\n{chain}index out of bounds: 0 <= tmp499 < 7\n"
    assert bounds(source) == {"in_ptr0": 7}
