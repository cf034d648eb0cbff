"""The Triton kernels of the loss: right in the interpreter, compiled for sm_90 within its means, right on a GPU."""

from pathlib import Path

import pytest
import torch
from exact_loss import errors, exact, found
from forks import forks

pytest.importorskip("triton")

from compiled_loss import compile_exponentials, compile_recomputed, compile_rows, compile_times

from minikernel import linear_cross_entropy
from minikernel.ops.linear_cross_entropy import exponentials, paths, recomputed, rows
from minikernel.ops.linear_cross_entropy.options import Options
from minikernel.proof.loss.cases import Case, made
from minikernel.proof.loss.correctness import worst
from minikernel.proof.loss.exact import exact as float64

RUN = Path(__file__).parents[2] / "interpreter" / "run_loss.py"
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
EVERYTHING = {"label_smoothing": 0.1, "z_loss": 0.02, "reduction": "mean", "ignore_index": 5}
OPTIONS = (
    {},
    {"reduction": "none"},
    {"reduction": "sum", "label_smoothing": 0.2},
    {"softcap": 2.0, "z_loss": 0.1},
    EVERYTHING,
)


def case(path, shape, dtype, options, vectors, seed=0):
    m, d, v = shape
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, v, (m,), generator=generator)
    target[1::9] = options.get("ignore_index", -100)
    target[0] = v - 1
    loss_shape = (m,) if options.get("reduction") == "none" else ()
    return {
        "path": path,
        "h": torch.randn(m, d, generator=generator).to(dtype),
        "weight": (3 * torch.randn(v, d, generator=generator) * d**-0.5).to(dtype),
        "target": target,
        "grad": torch.rand(loss_shape, generator=generator) + 0.5,
        "options": options,
        "bias": torch.randn(v, generator=generator).to(dtype) if vectors else None,
        "class_weight": torch.rand(v, generator=generator) if vectors else None,
    }


def expected(one):
    vectors = {name: one[name] for name in ("bias", "class_weight")}
    return exact(one["h"], one["weight"], one["target"], one["grad"], **vectors, **one["options"])


def interpret(cases, tmp_path):
    torch.save(cases, tmp_path / "in.pt")
    done = forks("script").run([RUN, str(tmp_path / "in.pt"), str(tmp_path / "out.pt")], tmp_path)
    assert done.returncode == 0, done.stderr
    return torch.load(tmp_path / "out.pt", weights_only=True)


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 2e-6), (torch.float16, 2**-10)])
def test_recomputed_interpreted_agrees_with_float64_in_every_option(tmp_path, dtype, allowed):
    cases = [case("recomputed", (70, 16, 50), dtype, options, False) for options in OPTIONS]
    cases += [case("recomputed", (130, 40, 129), dtype, options, True) for options in OPTIONS]
    for one, results in zip(cases, interpret(cases, tmp_path), strict=True):
        assert max(errors(results, expected(one))) < allowed, (one["h"].shape, one["options"])


def test_recomputed_interpreted_keeps_small_losses_large_biases_masked_classes_and_ignored_rows(tmp_path):
    confident = case("recomputed", (8, 16, 16), torch.float32, {}, False)
    confident |= {"h": torch.eye(8, 16) * 20, "weight": torch.eye(16), "target": torch.arange(8)}
    # whose exponential alone is infinite, in rows that fill a tile up too
    biased = case("recomputed", (40, 16, 30), torch.float32, {}, True)
    biased["bias"] += 200
    masked = case("recomputed", (40, 16, 30), torch.float32, {"reduction": "sum"}, True)
    masked["bias"][:7] = -torch.inf
    masked["target"][:] = 8
    ignored = case("recomputed", (9, 16, 30), torch.float32, {}, False)
    ignored["target"][:] = -100
    cases = [confident, biased, masked]
    *results, none = interpret([*cases, ignored], tmp_path)
    for one, result in zip(cases, results, strict=True):
        assert max(errors(result, expected(one))) < (1e-4 if one is biased else 2e-6)
    assert none[0].isnan()
    assert not none[1].any()
    assert not none[2].any()


def test_rows_interpreted_agrees_with_float64_in_every_option_it_takes(tmp_path):
    options = [o for o in OPTIONS if "softcap" not in o]
    cases = [case("rows", (40, 24, 4100), torch.float32, o, vectors) for o in options for vectors in (False, True)]
    for one, results in zip(cases, interpret(cases, tmp_path), strict=True):
        assert max(errors(results, expected(one))) < 2e-6, one["options"]


def test_exponentials_interpreted_agree_with_float64_in_every_option_they_take(tmp_path):
    options = ({}, {"reduction": "none"}, {"reduction": "sum", "z_loss": 0.1}, {"z_loss": 0.02, "ignore_index": 5})
    shapes = (40, 24, 410), (150, 70, 129)
    cases = [case("exponentials", s, torch.float32, o, v) for s in shapes for o in options for v in (False, True)]
    for one, results in zip(cases, interpret(cases, tmp_path), strict=True):
        assert max(errors(results, expected(one))) < 2e-6, one["options"]


def test_exponentials_interpreted_keep_offsets_masks_ignored_rows_and_one_class_for_all(tmp_path):
    offset = case("exponentials", (60, 24, 90), torch.float32, {}, True)
    # whole numbers: nothing is rounded before the loss, which an offset then costs no digit
    offset |= {name: offset[name].round() for name in ("h", "weight")}
    offset["bias"][:] = 2.0**14
    masked = case("exponentials", (40, 16, 300), torch.float32, {"reduction": "sum"}, True)
    masked["bias"][:7] = -torch.inf
    one_class = case("exponentials", (300, 16, 50), torch.float32, {"reduction": "sum"}, True)
    one_class["target"][:] = masked["target"][:] = 8
    infinite = case("exponentials", (300, 16, 50), torch.float32, {}, False)
    infinite["h"][1] = torch.inf  # whose token is ignored
    nothing = case("exponentials", (9, 16, 30), torch.float32, {}, True)
    nothing["target"][:] = -100
    *results, none = interpret([offset, masked, one_class, infinite, nothing], tmp_path)
    infinite["h"][1] = 0
    for one, result in zip((offset, masked, one_class, infinite), results, strict=True):
        assert max(errors(result, expected(one))) < 2e-6
    assert none[0].isnan()
    assert not any(gradient.any() for gradient in none[1:])


def test_interpreted_no_token_has_no_loss_and_gradients_of_zero(tmp_path):
    cases = [case(path, (1, 16, 30), torch.float32, {"reduction": "sum"}, True) for path in (*paths.WIDE, "recomputed")]
    for one in cases:
        one |= {name: one[name][:0] for name in ("h", "target")}
    for loss, *gradients in interpret(cases, tmp_path):
        assert loss == 0
        assert [(g.shape, bool(g.any())) for g in gradients] == [((0, 16), False), ((30, 16), False), ((30,), False)]


@pytest.mark.parametrize("logits", ["plain", "offset", "sure", "least"])
def test_rows_interpreted_has_the_error_that_16_bits_must_have_and_no_more(tmp_path, logits):
    # of float16, for the interpreter cuts bfloat16 off; with logits in 16 bits all but "sure" are wrong, 1.4 to 2 times
    inputs = made(Case("wide", 90, 1024, 3000, logits=logits), "float16", "cpu", 3)
    one = {"path": "rows", "grad": torch.tensor(1.0), "options": {"reduction": "sum"}, "bias": None}
    one |= {"class_weight": None, "h": inputs.h, "weight": inputs.weight, "target": inputs.target}
    (results,) = interpret([one], tmp_path)
    right = float64(inputs.h, inputs.weight, inputs.target, reduction="sum")
    found = worst(dict(zip(("loss", "dh", "dw"), results, strict=True)), right)
    assert found["verdict"] == "right", found


@pytest.mark.parametrize(
    ("path", "classes", "dtype", "allowed"),
    [("recomputed", 40, "float16", 2**-10), ("rows", 40, "float32", 2e-6), ("exponentials", 300, "float32", 2e-6)],
)
def test_interpreted_the_highest_logit_is_looked_for_where_the_targets_is_too_far_below(
    tmp_path, path, classes, dtype, allowed
):
    # the target's logit is taken off first; in two rows of three here the highest is 196 above, and e^196 is infinite
    far = case(path, (24, 16, classes), getattr(torch, dtype), {"reduction": "sum"}, False)
    far |= {"h": torch.eye(16).repeat(2, 1)[:24].to(far["h"]) * 14, "weight": torch.eye(classes, 16).to(far["h"]) * 14}
    far["target"] = torch.where(torch.arange(24) % 3 == 0, torch.arange(24) % 16, 39)
    right = expected(far)
    (results,) = interpret([far], tmp_path)
    assert right[0] > 16 * 190
    assert max(errors(results, right)) < allowed


@pytest.mark.parametrize("classes", [1, 63, 64, 4097])
def test_rows_interpreted_fills_classes_up_with_what_has_no_gradient(tmp_path, classes):
    # all logits are far below 0, where the filled-up classes' would lead
    one = case("rows", (33, 24, classes), torch.float32, {"label_smoothing": 0.1}, True)
    one["bias"] -= 150
    (results,) = interpret([one], tmp_path)
    assert [r.shape for r in results[1:]] == [(33, 24), (classes, 24), (classes,)]
    right = expected(one)
    # of one class there is nothing to learn: what is left is rounding
    assert max(errors(results, right)) < 1e-4 if classes > 1 else all(r.abs().max() < 1e-4 for r in results)


@pytest.mark.parametrize("kernel", ["forward", "weight"])
@pytest.mark.parametrize(
    ("features", "dtype", "spilled"),
    [(64, "bfloat16", 128), (128, "bfloat16", 64), (256, "bfloat16", 128), (64, "float32", 128), (64, "float16", 128)],
)
def test_recomputed_compiles_for_sm_90_within_a_blocks_shared_memory(features, dtype, spilled, kernel):
    found = compile_recomputed(features, dtype, kernel, GRADIENT=True)
    assert found["shared_bytes"] <= 232_448
    assert found["stack_bytes"] <= spilled


@pytest.mark.parametrize(
    ("kernel", "flags"),
    [
        ("forward", ("GRADIENT", "HAS_BIAS", "HAS_CLASS_WEIGHT", "SMOOTH")),
        ("weight", ("HAS_BIAS", "BIAS_GRADIENT", "SOFTCAP")),
    ],
)
def test_recomputed_compiles_for_sm_90_with_every_option(kernel, flags):
    # what the interpreter takes may not compile: it follows one branch and knows no types
    # with a softcap a few registers are too few
    assert compile_recomputed(64, "bfloat16", kernel, **dict.fromkeys(flags, True))["stack_bytes"] <= 256


def test_the_kernel_that_finishes_compiles_for_sm_90_without_a_spill():
    for features, dtype, smooth in ((64, "bfloat16", False), (256, "float16", True), (100, "float32", True)):
        found = compile_recomputed(features, dtype, "gather", SMOOTH=smooth, WEIGHT=True, TOKENS=True)
        assert found["stack_bytes"] == 0


def test_rows_compiles_for_sm_90_without_a_spill():
    for flags in ({}, {"HAS_BIAS": True, "SMOOTH": True, "HAS_CLASS_WEIGHT": True}):
        assert compile_rows(SCALED=True, GRADIENT=True, **flags)["stack_bytes"] == 0
    assert all(compile_times(dtype)["stack_bytes"] == 0 for dtype in ("float32", "bfloat16"))


@pytest.mark.parametrize(("features", "bias"), [(256, False), (528, True), (1008, False)])
def test_exponentials_compile_for_sm_90_without_a_spill_twice_on_a_multiprocessor(features, bias):
    found = compile_exponentials(features, bias)
    assert {name: one["stack_bytes"] for name, one in found.items()} == dict.fromkeys(found, 0)
    large, threads = found["exponentials"], 32 * exponentials.TILES.warps
    assert 2 * large["shared_bytes"] <= 232_448
    assert 2 * threads * large["registers"] <= 65_536


@pytest.mark.parametrize(
    ("features", "dtype", "options", "path", "says"),
    [
        (64, torch.bfloat16, {}, "recomputed", "64 features, at most 128"),
        (256, torch.bfloat16, {}, "exponentials", "256 features, more than 128"),
        (256, torch.bfloat16, {"label_smoothing": 0.1}, "rows", "label smoothing"),
        (256, torch.bfloat16, {"softcap": 3.0}, "recomputed", "256 features, at most 256"),
        (256, torch.float16, {}, "recomputed", "256 features, at most 256"),
        (129, torch.float32, {}, "chunked", "above 128 features the kernels take bfloat16, not float32"),
        (264, torch.bfloat16, {}, "rows", "264 features, no multiple of 16"),
        (1536, torch.bfloat16, {}, "rows", "1536 features, more than 1280"),
        (768, torch.bfloat16, {"softcap": 3.0}, "chunked", "know no softcap"),
        (64, torch.float32, {"softcap": 3.0, "label_smoothing": 0.1}, "chunked", "third product"),
        (64, torch.float64, {}, "chunked", "not float64"),
    ],
)
def test_the_path_of_a_hopper_gpu_follows_width_dtype_and_options(monkeypatch, features, dtype, options, path, says):
    class OnGpu:
        is_cuda = True
        shape = (8, features)

        def get_device(self):
            return 0

    h = OnGpu()
    h.dtype = dtype
    monkeypatch.setattr(paths, "capability", lambda device: (9, 0))
    found = paths.choose(h, Options(**options))
    assert (found.name, says in found.reason) == (path, True), found
    monkeypatch.setattr(paths, "capability", lambda device: (8, 0))
    assert paths.choose(h, Options(**options)).name == "chunked"


def test_splits_cover_every_row_once_and_their_sums_have_a_bound():
    for m, v, d in ((1, 600, 64), (65536, 600, 64), (65536, 32768, 64), (8192, 50257, 256), (100, 7, 16)):
        _, tiles = recomputed.tiles_of(d, 2)
        splits, each = recomputed.splits_of(m, v, d, tiles, torch.empty(0))
        assert (splits - 1) * each < m <= splits * each
        assert each % tiles.rows == 0
        assert splits == 1 or splits * v * d * 4 <= recomputed.PARTIAL_BYTES


def test_a_chunk_of_rows_has_a_bound_and_all_rows_where_they_fit():
    assert rows.rows_of_a_chunk(8192, 600, 512) == 8192
    fewer = rows.rows_of_a_chunk(8192, 32768, 512)
    assert fewer * 4 * 32768 + 4 * 32768 * 512 <= rows.BYTES
    assert fewer >= 1024
    # chunks would take as much: 1,024 rows' logits, and the weight's gradient in float32
    assert rows.rows_of_a_chunk(4096, 128256, 4096) == 4096
    assert rows.rows_of_a_chunk(4096, 128256, 1024) == 1024
    assert rows.padded(50257) == 50304


def test_a_chunk_of_exponentials_has_a_bound():
    for rows_, classes, features in ((8192, 50257, 256), (8192, 32768, 512), (8192, 50257, 768), (600, 600, 512)):
        count = exponentials.rows_of_a_chunk(rows_, classes, features, 2, True)
        filled = 0 if exponentials.padded(classes) == classes else classes * features
        assert 2 * (count * classes + classes * features + filled) <= exponentials.BYTES
        assert count == rows_ or count % exponentials.STEP == 0
    assert exponentials.rows_of_a_chunk(4096, 128256, 1024, 2, True) == exponentials.LEAST_ROWS


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(300, 16, 50), (515, 64, 600), (700, 100, 1001), (260, 256, 777), (300, 1400, 2111)])
def test_on_a_gpu_every_path_agrees_with_float64(dtype, shape):
    for options in OPTIONS:
        for vectors in (False, True):
            one = case("", shape, dtype, options, vectors)
            on_gpu = {n: t.cuda() if torch.is_tensor(t) else t for n, t in one.items()}
            vector = {name: on_gpu[name] for name in ("bias", "class_weight")}
            arguments = on_gpu["h"], on_gpu["weight"], on_gpu["target"], on_gpu["grad"]
            results = found(linear_cross_entropy, *arguments, **vector, **options)
            allowed = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-8}[dtype]
            assert max(errors(results, expected(one))) < allowed, (options, vectors)


@gpu
@needs_gpu
@pytest.mark.parametrize(("features", "dtype"), [(16, torch.float32), (16, torch.bfloat16), (256, torch.bfloat16)])
def test_on_a_gpu_a_common_offset_of_all_logits_costs_the_loss_no_digits(features, dtype):
    one = case("", (100, features, 90), dtype, {}, True)
    # whole numbers: nothing is rounded before the loss
    offset = torch.full((90,), 2.0**14)
    on_gpu = [t.cuda() for t in (one["h"].round(), one["weight"].round(), one["target"], one["grad"])]
    results = found(linear_cross_entropy, *on_gpu, bias=offset.to("cuda", dtype))
    right = exact(*on_gpu, bias=offset)
    assert errors(results, right)[0] < 1e-6
    assert max(errors(results[:3], right[:3])) < 2**-8


@gpu
@needs_gpu
def test_on_a_gpu_a_wrong_class_is_nan_and_no_access_out_of_bounds():
    for features in (64, 512, 1536):
        h, weight = (torch.randn(n, features, device="cuda", dtype=torch.bfloat16) for n in (40, 70))
        target = torch.full((40,), 69, device="cuda")
        target[3] = 70
        loss, dh, _ = found(linear_cross_entropy, h, weight, target, reduction="sum")
        assert loss.isnan()
        assert dh[3].isnan().all()
        assert dh[:3].isfinite().all()


@gpu
@needs_gpu
def test_on_a_gpu_more_logits_than_32_bits_count():
    rows_, classes = 65536 + 128, 32768 + 64
    h, weight = (torch.randn(n, 16, device="cuda", dtype=torch.bfloat16) for n in (rows_, classes))
    target = torch.arange(rows_, device="cuda") % classes
    _, dh, _ = found(linear_cross_entropy, h, weight, target, reduction="sum")
    last = exact(h[-64:], weight, target[-64:], reduction="sum")[1]
    assert errors([dh[-64:]], [last])[0] < 2**-8
