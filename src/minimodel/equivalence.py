"""The proof of the port: NumPy's and PyTorch's layers side by side, and where they first part.

Logits alone would say that a port is wrong, not where. So every layer is compared twice: in the running
model, where differences add up, and by itself, fed with NumPy's values, where a wrong layer shows alone
and is named. A float64 forward of the NumPy model is the reference that says how far each float32 side is
from the truth, in ulps; Goldberg, "What every computer scientist should know about floating-point
arithmetic" (1991), has the idea of the unit. And what is rounding must vanish in float64: there the two
models are held to a tolerance that no difference in what they compute would pass.
"""

import copy
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import compare_arrays, same_bytes, torch_name
from minimodel.torch_minigpt import GrammarMiniGPT, layer_names

ULP = (
    "An ulp is the float32 spacing at the larger of two magnitudes: the float64 reference's own value, and "
    "the root mean square of its layer. The second keeps a value that cancelled to almost nothing, or is "
    "exactly zero, from being judged finer than the numbers it was summed from."
)
# Largest |PyTorch - NumPy| of float64 logits, relative to their root mean square. Trained models were
# seen at 1e-14 in float64 and at 5e-6 in float32.
FLOAT64_TOLERANCE = 1e-10
# What differs in float64 is computed again: two models that differ do so by the same every time, but a processor was
# seen whose quotients are off by as much for some seconds.
COMPUTATIONS, PAUSE_SECONDS, ALIKE = 6, 2, 1e-3
NAMED_ARRAYS = 4  # in a sentence of what is wrong
TINY = np.finfo(np.float32).tiny  # keeps a probability that underflowed from dividing by zero


def check_equivalence(
    checkpoint: Checkpoint,
    model: GrammarMiniGPT,
    seed: int = 42,
    shape: Sequence[int] = (2, 16),
    atol: float = 1e-5,
    rtol: float = 1e-5,
    further_shapes: int = 8,
) -> dict:
    """Compare the port with the NumPy model: weights, layers, logits, probabilities, further shapes.

    Everything runs on CPU in float32, in `eval()` mode, on one thread. On the ids of `shape`, logits and
    probabilities are held to |PyTorch - NumPy| <= atol + rtol |NumPy|, element by element. Layers by
    themselves and the further shapes, with up to a million logits, are held to the same with |NumPy| no
    smaller than the output's root mean square: among so many values some cancel to nearly nothing, and keep
    the rounding error of what they were summed from. All logits are held to each other in float64 too.

    Args:
        checkpoint: the NumPy model.
        model: its port, on CPU, float32.
        seed: seeds the ids.
        shape: (B, T) of the random ids; T is cut to the model's `block_size`.
        atol, rtol: the tolerance.
        further_shapes: how many random shapes from (1, 1) to (8, block_size) follow, besides those two.

    Returns:
        The report, as `schemas/equivalence.schema.yaml` describes it, without provenance.

    Raises:
        LabError: the contract is broken; the sentence names the first layer and each array to blame. Or this machine
            does not compute the same twice.
    """
    if model.config != checkpoint.config:
        raise LabError(f"The port's sizes are {model.config} and the checkpoint's {checkpoint.config}; port again.")
    config = checkpoint.config
    # One generator for everything: the contract's ids come first, so that further shapes do not change them.
    generator = np.random.default_rng(seed)
    # a model with fewer positions than the contract's 16 tokens is held to as many as it has
    shape = (shape[0], min(shape[1], config.block_size))
    ids = generator.integers(0, config.vocab_size, shape)
    largest = (8, config.block_size)
    random = generator.integers(1, largest, (further_shapes, 2), endpoint=True).tolist()
    further_ids = [generator.integers(0, config.vocab_size, size) for size in [(1, 1), *random, largest]]
    numpy_model = NumpyMiniGPT.from_checkpoint(checkpoint)
    model.eval()
    with one_thread(), torch.no_grad():
        layers = compare_layers(numpy_model, model, ids, atol, rtol)
        _require_equal_layers(layers, model, checkpoint.arrays)
        outputs, *further = [_outputs(numpy_model, model, some, atol, rtol) for some in (ids, *further_ids)]
    _require_equal_outputs(outputs, "elementwise_tolerance_used")
    for row in further:
        _require_equal_outputs(row, "tolerance_used")
    return {
        "contract": {
            "seed": seed,
            "shape": list(shape),
            "atol": atol,
            "rtol": rtol,
            "threads": 1,
            "held": True,
        },
        "weights": {"arrays": len(checkpoint.arrays), "byte_equal": True},
        "outputs": outputs,
        "ulp": ULP,
        "layers": layers,
        "further_shapes": further,
    }


def compare_layers(
    numpy_model: NumpyMiniGPT, model: GrammarMiniGPT, ids: np.ndarray, atol: float = 1e-5, rtol: float = 1e-5
) -> list[dict]:
    """One row for each layer, in order: its `layer`, `shape`, `rms`, and the differences.

    `torch_numpy`, `torch_float64` and `numpy_float64` compare the running models pairwise; `own` compares
    PyTorch's layer with NumPy's on NumPy's inputs. Each has `max_abs_difference` and `max_ulps` (see
    `ULP`); `own` also has `tolerance_used` and whether that `held`.

    Args:
        ids: (B, T) int64.
    """
    numpy_trace: dict[str, np.ndarray] = {}
    numpy_model.forward(ids, trace=numpy_trace)
    reference: dict[str, np.ndarray] = {}
    numpy_model.astype(np.float64).forward(ids, trace=reference)
    # Twice through PyTorch: as it runs, and with each layer's output replaced by NumPy's before the next one sees it.
    feed = {name: torch.from_numpy(output) for name, output in numpy_trace.items()}
    torch_ids = torch.from_numpy(ids)
    running = {name: output.numpy() for name, output in model.trace(torch_ids).items()}
    fed = {name: output.numpy() for name, output in model.trace(torch_ids, feed=feed).items()}
    rows = []
    for name in layer_names(model.config):
        exact, ours = reference[name], numpy_trace[name]
        used = tolerance_used(fed[name], ours, atol, rtol, floor=rms(ours))
        rows.append(
            {
                "layer": name,
                "shape": list(exact.shape),
                "rms": rms(exact),
                "torch_numpy": difference(running[name], ours, exact),
                "torch_float64": difference(running[name], exact, exact),
                "numpy_float64": difference(ours, exact, exact),
                "own": {**difference(fed[name], ours, exact), "tolerance_used": used, "held": used <= 1},
            }
        )
    return rows


def compare_outputs(
    numpy_model: NumpyMiniGPT, model: GrammarMiniGPT, ids: np.ndarray, atol: float = 1e-5, rtol: float = 1e-5
) -> dict:
    """The running models' differences on `ids` (B, T): logits, probabilities, and logits in float64.

    `elementwise_tolerance_used` is the largest |PyTorch - NumPy| / (atol + rtol |NumPy|), at most 1 exactly
    where `allclose` holds; in `tolerance_used`, |NumPy| is no smaller than its root mean square.
    """
    torch_ids = torch.from_numpy(ids)
    pairs = {
        # Copied, because the NumPy model computes its probabilities in the buffer of its logits.
        "logits": (model(torch_ids).numpy(), numpy_model.forward(ids).copy()),
        "probabilities": (model.probabilities(torch_ids).numpy(), numpy_model.probabilities(ids)),
    }
    report: dict = {"shape": list(ids.shape)}
    for name, (ported, ours) in pairs.items():
        report[name] = {
            "max_abs_difference": float(np.abs(ported.astype(np.float64) - ours).max()),
            "elementwise_tolerance_used": tolerance_used(ported, ours, atol, rtol),
            "tolerance_used": tolerance_used(ported, ours, atol, rtol, floor=float(rms(ours))),
            "bit_identical": same_bytes(ported, ours),
        }
    report["probabilities"]["max_relative_difference"] = tolerance_used(ported, ours, 0, 1, floor=float(TINY))
    # In float64 both models round 5e8 times finer: what still differs is another formula.
    exact = numpy_model.astype(np.float64).forward(ids)
    distance = np.abs(copy.deepcopy(model).double()(torch_ids).numpy() - exact).max()
    report["logits"]["float64_relative_difference"] = float(distance / rms(exact))
    return report


def _outputs(numpy_model: NumpyMiniGPT, model: GrammarMiniGPT, ids: np.ndarray, atol: float, rtol: float) -> dict:
    """`compare_outputs`, computed again where float64 parts, until it no longer does or parts by the same again.

    Raises:
        LabError: this machine has not computed the same twice.
    """
    seen: list[float] = []
    while True:
        row = compare_outputs(numpy_model, model, ids, atol, rtol)
        found = row["logits"]["float64_relative_difference"]
        settled = not found > FLOAT64_TOLERANCE  # a NaN needs no second look
        # the same difference twice is a model's; another each time is the machine's
        if settled or any(math.isclose(found, other, rel_tol=ALIKE) for other in seen):
            return row
        seen.append(found)
        if len(seen) == COMPUTATIONS:
            raise LabError(
                f"This machine does not compute the same twice: the same float64 logits of the port and of NumPy "
                f"differ by {', '.join(f'{one:.3g}' for one in seen)} of their size. Its processor or memory errs, "
                f"so nothing is known of the port; run it on another machine."
            )
        time.sleep(PAUSE_SECONDS)


def rms(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))


def tolerance_used(a: np.ndarray, b: np.ndarray, atol: float, rtol: float, floor: float = 0.0) -> float:
    """Largest |a - b| / (atol + rtol max(|b|, floor)); NaN where either has one."""
    allowed = atol + rtol * np.maximum(np.abs(b.astype(np.float64)), floor)
    return float((np.abs(a.astype(np.float64) - b) / allowed).max())


def difference(a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Largest |a - b|, absolute and in ulps of the float64 `reference` (see `ULP`); one shape for all."""
    distance = np.abs(a.astype(np.float64) - b)
    ulp = np.spacing(np.maximum(np.abs(reference), rms(reference)).astype(np.float32)).astype(np.float64)
    return {"max_abs_difference": float(distance.max()), "max_ulps": float((distance / ulp).max())}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch and NumPy's BLAS on one thread, so that no sum is split; then as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def _require_equal_outputs(row: dict, held_by: str) -> None:
    """Raise one sentence on a row of `compare_outputs` that breaks the contract (a NaN breaks it too)."""
    for name in ("logits", "probabilities"):
        # `not <=`, because a NaN is neither above nor below
        if not row[name][held_by] <= 1:
            raise LabError(
                f"The port's {name} differ from NumPy's by up to {row[name]['max_abs_difference']:.3g} on ids of "
                f"shape {tuple(row['shape'])}, {row[name][held_by]:.3g} times the tolerance, though each layer "
                f"agrees by itself; look at what GrammarMiniGPT does between and after its layers."
            )
    if not row["logits"]["float64_relative_difference"] <= FLOAT64_TOLERANCE:
        raise LabError(
            f"In float64 the port's logits differ from NumPy's by {row['logits']['float64_relative_difference']:.3g} "
            f"of their size on ids of shape {tuple(row['shape'])}, more than rounding can; the two models "
            f"compute different things, so compare their constants (epsilon, GELU, scale)."
        )


def _require_equal_layers(rows: list[dict], model: GrammarMiniGPT, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise one sentence that names the first layer that parts and each array that is not the same."""
    wrong_layers = [row for row in rows if not row["own"]["held"]]
    # Both are looked for: an array may differ and no layer show it on these ids, or a layer with the right arrays may.
    wrong_arrays = [row["numpy_name"] for row in compare_arrays(model, arrays) if not row["byte_equal"]]
    if not wrong_layers and not wrong_arrays:
        return
    if wrong_layers:
        first = wrong_layers[0]
        found = (
            f"layer {first['layer']} of the port differs from NumPy's by up to "
            f"{first['own']['max_abs_difference']:.3g} on the same input"
        )
    else:
        found = "the layers agree on these ids"
    if wrong_arrays:
        state, named = model.state_dict(), wrong_arrays[:NAMED_ARRAYS]
        described = [f"{name} ({_describe(state[torch_name(name)].numpy(), name, arrays)})" for name in named]
        more = f" and {len(wrong_arrays) - len(named)} more" if len(named) < len(wrong_arrays) else ""
        blame = f"the weights differ from the checkpoint's in {', '.join(described)}{more}; port again"
    else:
        blame = "every weight is the checkpoint's, so look at the layer's code in torch_minigpt.py"
    raise LabError(f"The port is not equivalent: {found}, and {blame}.")


def _describe(held: np.ndarray, name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """What the port holds in place of the checkpoint's array `name`."""
    # the two mistakes that ports make most: a transposition, and one array in another's place
    if same_bytes(np.ascontiguousarray(held.T), arrays[name]):
        return "transposed"
    for other, array in arrays.items():
        if same_bytes(held, array):
            return f"holds {other}"
    return "other values"
