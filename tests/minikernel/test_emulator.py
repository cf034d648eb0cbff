"""The emulator computes what a GPU does, and finds what kernels must not do."""

import numpy as np
import pytest
from emulator import COMPILER, Kernel, KernelError

from minikernel.ops.softmax_cuda import HERE, source

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")
PTX = source("../model/ptx.cuh")
TILES = source("../model/tiles.cuh")
SEEDS = (0, 1, 2, 3)


def run(text, arguments, *, grid=1, block=32, headers="", **how):
    """Launch the kernel `k` of a text."""
    Kernel(headers + text, "k").launch(grid, block, arguments, **how)


def softmax(x):
    exponentials = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-np.inf))
    return exponentials / exponentials.sum(1, keepdims=True)


@pytest.mark.parametrize(("name", "threads", "rows"), [("naive", 128, 128), ("smem", 256, 1), ("warp", 128, 4)])
@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_the_ladders_first_kernels_give_softmax(name, threads, rows, dtype):
    kernel = Kernel(source(f"cuda/{name}.cu"), f"{name}<{dtype}>")
    x = np.random.default_rng(0).normal(0, 4, (9, 1100)).astype({"float": np.float32, "float16": np.float16}[dtype])
    for seed in SEEDS:
        y = np.full_like(x, np.nan)
        kernel.launch(-(-len(x) // rows), threads, [x, y, np.int64(9), np.int64(1100)], seed=seed)
        np.testing.assert_allclose(
            y, softmax(x), rtol=4e-7 if dtype == "float" else 1e-3, atol=0 if dtype == "float" else 1e-7
        )


def test_without_one_of_its_barriers_smem_is_wrong():
    text = source("cuda/smem.cu")
    assert text.count("__syncthreads();") == 3
    x = np.random.default_rng(1).normal(0, 4, (1, 1100)).astype(np.float32)
    for which in range(3):
        parts = text.split("__syncthreads();")
        cut = (
            "__syncthreads();".join(parts[: which + 1])
            + "__syncthreads();".join(["", *parts[which + 1 :]])[len("__syncthreads();") :]
        )
        wrong = []
        for seed in SEEDS:
            y = np.full_like(x, np.nan)
            Kernel(cut, "smem<float>").launch(1, 256, [x, y, np.int64(1), np.int64(1100)], seed=seed)
            wrong.append(not np.allclose(y, softmax(x), rtol=1e-5, atol=0))
        assert any(wrong), which


def test_tensor_cores_multiply():
    """16 rows by 8 columns over 16 features, by three products of float16 and by one of bfloat16, from result tiles."""
    text = """
__global__ void k(const float* a, const uint4* split, const uint2* rounded, float* made) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  float tiles[2][4], sum[2][4] = {};
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 4; ++i) tiles[half][i] = a[(g + i / 2 * 8) * 16 + 8 * half + 2 * t + i % 2];
  Float32::multiply(sum[0], Float32::left(tiles[0], tiles[1]), split[lane]);
  Bfloat16::multiply(sum[1], Bfloat16::left(tiles[0], tiles[1]), rounded[lane]);
  for (int which = 0; which < 2; ++which)
    for (int i = 0; i < 4; ++i) made[which * 128 + (g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[which][i];
}"""
    from minikernel.model.fragments import pieces

    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(16, 16)).astype(np.float32), rng.normal(size=(8, 16)).astype(np.float32)
    split, scale = pieces(b, "float32")
    made = np.full((2, 16, 8), np.nan, np.float32)
    for seed in SEEDS:
        run(text, [a, split, pieces(b, "bfloat16")[0], made], headers=PTX + TILES, seed=seed)
        exact = a.astype(np.float64) @ b.T.astype(np.float64)
        assert np.abs(made[0] * scale - exact).max() < 2e-6
        assert 1e-4 < np.abs(made[1] - exact).max() < 5e-2


def test_a_matrix_is_transposed():
    text = "__global__ void k(const word* a, word* made) { made[threadIdx.x] = transposed(a[threadIdx.x]); }"
    a = np.arange(64, dtype=np.uint16).reshape(8, 8)
    made = np.zeros_like(a)
    run(text, [a, made], headers=PTX)
    assert made.tolist() == a.T.tolist()


EXCHANGE = """
__global__ void __cluster_dims__(4, 1, 1) k(const float4* from, float* made) {
  extern __shared__ float4 room[];
  __shared__ alignas(16) float4 copied[32];
  __shared__ unsigned long long barriers[2];
  const unsigned block = block_of_cluster(), thread = threadIdx.x;
  if (thread < 2) make_barrier(shared_address(&barriers[thread]), 1);
  fence_barriers();
  __syncthreads();
  cluster_barrier();
  if (thread == 0) {
    expect(shared_address(&barriers[0]), 512);
    bulk_copy(shared_address(copied), from + 32 * block, 512, shared_address(&barriers[0]));
    expect(shared_address(&barriers[1]), 4 * 512);
  }
  await(shared_address(&barriers[0]), 0);
  for (unsigned to = 0; to < 4; ++to)
    send(remote(shared_address(room + 32 * block + thread), to), remote(shared_address(&barriers[1]), to),
         copied[thread]);
  await(shared_address(&barriers[1]), 0);
  float4 sum = make_float4(0, 0, 0, 0);
  for (int b = 0; b < 4; ++b) sum.x += room[32 * b + thread].x, sum.y += room[32 * b + thread].w;
  made[2 * (32 * block + thread)] = sum.x;
  made[2 * (32 * block + thread) + 1] = sum.y;
  cluster_barrier();
}"""


def exchanged(text=EXCHANGE, seed=0):
    given = np.random.default_rng(3).normal(size=(4, 32, 4)).astype(np.float32)
    made = np.full((4, 32, 2), np.nan, np.float32)
    run(text, [given, made], headers=PTX, grid=4, cluster=4, shared_bytes=4 * 512, seed=seed)
    return np.abs(made - given.sum(0)[:, [0, 3]]).max() < 1e-5


def test_blocks_of_a_cluster_exchange():
    assert all(exchanged(seed=seed) for seed in SEEDS)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("await(shared_address(&barriers[0]), 0);", None),
        ("await(shared_address(&barriers[1]), 0);", "ended before|after that block ended|None"),
        ("expect(shared_address(&barriers[1]), 4 * 512);", "deadlock: block 0.*lacks 1 arrivals and -2048 bytes"),
        ("if (thread < 2) make_barrier(shared_address(&barriers[thread]), 1);", "was never initialised"),
        ("shared_address(copied), from + 32 * block, 512,", "multiples of 16 bytes"),
    ],
)
def test_an_exchange_without_a_part_is_wrong(missing, said):
    assert missing in EXCHANGE
    text = EXCHANGE.replace(missing, "shared_address(copied), from + 32 * block, 500," if "512," in missing else "")
    outcomes = []
    for seed in SEEDS:
        try:
            outcomes.append(str(exchanged(text, seed)))
        except KernelError as error:
            outcomes.append(str(error))
    assert any(outcome != "True" for outcome in outcomes)
    if said:
        import re

        assert any(re.search(said, outcome) for outcome in outcomes if outcome != "True"), outcomes


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "if (threadIdx.x < 32) __syncthreads();  else named_barrier(1, 64);",
            r"thread 0 and the 31 after it wait for barrier 0, where 32 of 64 .*, thread 32 and the 31 after it wait",
        ),
        (
            "if (threadIdx.x % 2) __syncwarp(); else named_barrier(1, 64);",
            "wait for __syncwarp with lanes ffffffff, of which 55555555 are missing",
        ),
        (
            "if (threadIdx.x % 2) __syncwarp(); else __shfl_sync(~0u, 1, 0);",
            "executes __shfl_sync where others of its warp execute __syncwarp|executes __syncwarp where",
        ),
        ("y[64] = 1;", "thread 0: argument 1 is accessed 0 bytes past its end"),
        ("y[threadIdx.x] = x[64 + threadIdx.x];", "argument 0 is accessed 0 bytes past its end"),
        ("y[0] = x[-5000];", "argument 0 is accessed 20000 bytes before its start"),
        ("y[-3] = 1;", "argument 1 was written 12 bytes before its start"),
        ("const_cast<float*>(x)[3] = 1;", "argument 0, a pointer to const, is written"),
        ("*(float4*)(y + 1) = make_float4(1, 2, 3, 4);", "alignment forbids"),
        ("float a[4]; a[(int)x[0] + 7] = 1; y[0] = a[(int)x[1]];", "beyond an array's end"),
        ("extern __shared__ float s[]; s[40] = 1;", "shared memory of the cluster's block 0 is accessed 32 bytes past"),
        ("*(float*)8 = 1;", "which belongs to nobody"),
        ("__trap();", r"__trap\(\)"),
        ("await(shared_address((void*)&x), 0);", "no address of shared memory"),
    ],
)
def test_what_a_kernel_must_not_do_is_told(body, said):
    text = f"__global__ void k(const float* x, float* y) {{ {body} }}"
    with pytest.raises(KernelError, match=said):
        run(text, [np.zeros(64, np.float32), np.zeros(64, np.float32)], block=64, headers=PTX, shared_bytes=128)


def test_shared_memory_is_not_a_number_before_it_is_written():
    text = """__global__ void k(float* y, unsigned short* z) {
      extern __shared__ float s[]; __shared__ unsigned short t[2][32];
      y[threadIdx.x] = s[threadIdx.x], z[threadIdx.x] = t[1][threadIdx.x];
    }"""
    y, z = np.zeros(32, np.float32), np.zeros(32, np.uint16)
    run(text, [y, z], shared_bytes=128)
    assert np.isnan(y).all()
    assert np.isnan(z.view(np.float16)).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([np.zeros(4, np.float32)], "takes 2 arguments, not 1"),
        ([np.zeros(4, np.float32), np.int64(4)], "argument 1 of k has 4 bytes, and"),
        ([np.zeros((4, 4), np.float32)[:, 1], np.int32(4)], "argument 0 of k is not contiguous"),
        ([np.float32(4), np.int32(4)], "argument 0 of k has 8 bytes"),
    ],
)
def test_arguments_that_a_kernel_does_not_take_are_refused(arguments, said):
    with pytest.raises(KernelError, match=said):
        run("__global__ void k(float* y, int n) {}", arguments)


def test_what_is_not_emulated_is_said():
    with pytest.raises(Exception, match="does not know the PTX instruction wgmma"):
        run('__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }', [])
    with pytest.raises(KernelError, match="was not declared"):
        run("__global__ void k() { __no_such_function(); }", [])


def test_every_header_beside_the_kernels_is_read():
    assert (HERE / "../model/ptx.cuh").exists()
