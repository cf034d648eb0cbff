"""The proof of the port: NumPy's and PyTorch's layers side by side, and where they first part.

Logits alone would say that a port is wrong, not where. So every layer is compared twice: in the running
model, where differences add up, and by itself, fed with NumPy's values, where a wrong layer shows alone
and is named. A float64 forward of the NumPy model is the reference that says how far each float32 side is
from the truth, in ulps; Goldberg, "What every computer scientist should know about floating-point
arithmetic" (1991), has the idea of the unit.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import compare_arrays, same_bytes, torch_name
from minimodel.torch_minigpt import GrammarMiniGPT, layer_names

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}
TINY = np.finfo(np.float32).tiny  # keeps a probability that underflowed from dividing by zero
ULP = (
    "An ulp is the float32 spacing at the larger of two magnitudes: the float64 reference's own value, and "
    "the root mean square of its layer. The second keeps a value that cancelled to almost nothing, or is "
    "exactly zero, from being judged finer than the numbers it was summed from."
)


def check_equivalence(
    checkpoint: Checkpoint,
    model: GrammarMiniGPT,
    shape: tuple[int, int] = (2, 16),
    seed: int = 42,
    further_shapes: int = 8,
) -> dict:
    """Compare the port with the NumPy model: weights, layers, logits, probabilities, further shapes.

    Everything runs on CPU in float32, in `eval()` mode, on one thread. Layers are held to `TOLERANCE` on
    NumPy's own inputs; logits and probabilities are held to it in the running models.

    Args:
        checkpoint: the NumPy model.
        model: its port, on CPU, float32.
        shape: (B, T) of the random ids; T is cut to the model's `block_size`.
        seed: seeds the ids.
        further_shapes: how many random shapes from (1, 1) to (8, block_size) follow, besides those two.

    Returns:
        The report, as `schemas/equivalence.schema.yaml` describes it, without provenance.

    Raises:
        LabError: the contract is broken; the sentence names the first layer and each array to blame.
    """
    if model.config != checkpoint.config:
        raise LabError(
            f"The port's sizes are {model.config} and the checkpoint's {checkpoint.config}; port again."
        )
    config = checkpoint.config
    generator = np.random.default_rng(seed)
    shape = (shape[0], min(shape[1], config.block_size))
    ids = generator.integers(0, config.vocab_size, shape)
    numpy_model = NumpyMiniGPT.from_checkpoint(checkpoint)
    model.eval()
    with one_thread(), torch.no_grad():
        layers = compare_layers(numpy_model, model, ids)
        _require_equal_layers(layers, model, checkpoint.arrays)
        outputs = _compare_outputs(numpy_model, model, ids)
        largest = (8, config.block_size)
        random = generator.integers(1, largest, (further_shapes, 2), endpoint=True).tolist()
        further = [
            _compare_outputs(numpy_model, model, generator.integers(0, config.vocab_size, size))
            for size in [(1, 1), *random, largest]
        ]
    return {
        "contract": {**TOLERANCE, "seed": seed, "shape": list(shape), "threads": 1, "held": True},
        "weights": {"arrays": len(checkpoint.arrays), "byte_equal": True},
        "outputs": outputs,
        "ulp": ULP,
        "layers": layers,
        "further_shapes": further,
    }


def compare_layers(numpy_model: NumpyMiniGPT, model: GrammarMiniGPT, ids: np.ndarray) -> list[dict]:
    """One row for each layer, in order: its `layer`, `shape`, `rms`, and the differences.

    `torch_numpy`, `torch_float64` and `numpy_float64` compare the running models pairwise; `own` compares
    PyTorch's layer with NumPy's on NumPy's inputs. Each has `max_abs_difference` and `max_ulps` (see
    `ULP`); `own` also has `held`, which is `allclose` at `TOLERANCE`.

    Args:
        ids: (B, T) int64.
    """
    numpy_trace: dict[str, np.ndarray] = {}
    numpy_model.forward(ids, trace=numpy_trace)
    reference: dict[str, np.ndarray] = {}
    numpy_model.astype(np.float64).forward(ids, trace=reference)
    feed = {name: torch.from_numpy(output) for name, output in numpy_trace.items()}
    torch_ids = torch.from_numpy(ids)
    running = {name: output.numpy() for name, output in model.trace(torch_ids).items()}
    fed = {name: output.numpy() for name, output in model.trace(torch_ids, feed=feed).items()}
    rows = []
    for name in layer_names(model.config):
        exact, ours = reference[name], numpy_trace[name]
        rows.append(
            {
                "layer": name,
                "shape": list(exact.shape),
                "rms": float(np.sqrt(np.mean(exact**2))),
                "torch_numpy": difference(running[name], ours, exact),
                "torch_float64": difference(running[name], exact, exact),
                "numpy_float64": difference(ours, exact, exact),
                "own": {
                    **difference(fed[name], ours, exact),
                    "held": bool(np.allclose(fed[name], ours, **TOLERANCE)),
                },
            }
        )
    return rows


def difference(a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Largest |a - b|, absolute and in ulps of the float64 `reference` (see `ULP`); one shape for all."""
    distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    magnitude = np.maximum(np.abs(reference), np.sqrt(np.mean(reference**2)))
    ulp = np.spacing(magnitude.astype(np.float32)).astype(np.float64)
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


def _compare_outputs(numpy_model: NumpyMiniGPT, model: GrammarMiniGPT, ids: np.ndarray) -> dict:
    """Hold logits and probabilities on `ids` to `TOLERANCE`; return their differences."""
    torch_ids = torch.from_numpy(ids)
    pairs = {
        # Copied, because the NumPy model computes its probabilities in the buffer of its logits.
        "logits": (model(torch_ids), numpy_model.forward(ids).copy()),
        "probabilities": (model.probabilities(torch_ids), numpy_model.probabilities(ids)),
    }
    report = {"shape": list(ids.shape)}
    for name, (ported, ours) in pairs.items():
        ported = ported.numpy()
        distance = np.abs(ported.astype(np.float64) - ours)
        report[name] = {
            "max_abs_difference": float(distance.max()),
            "bit_identical": same_bytes(ported, ours),
        }
        if name == "probabilities":
            report[name]["max_relative_difference"] = float((distance / np.maximum(ours, TINY)).max())
        if not np.allclose(ported, ours, **TOLERANCE):
            raise LabError(
                f"The port's {name} differ from NumPy's by up to {distance.max():.3g} on ids of shape "
                f"{ids.shape} though each layer agrees by itself; compare the layers' running differences."
            )
    return report


def _require_equal_layers(rows: list[dict], model: GrammarMiniGPT, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise one sentence that names the first layer that parts and each array that is not the same."""
    wrong_layers = [row for row in rows if not row["own"]["held"]]
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
        state = model.state_dict()
        described = [
            f"{name} ({_describe(state[torch_name(name)].numpy(), name, arrays)})" for name in wrong_arrays
        ]
        blame = f"the weights differ from the checkpoint's in {', '.join(described)}; port again"
    else:
        blame = "every weight is the checkpoint's, so look at the layer's code in torch_minigpt.py"
    raise LabError(f"The port is not equivalent: {found}, and {blame}.")


def _describe(held: np.ndarray, name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """What the port holds in place of the checkpoint's array `name`."""
    if same_bytes(np.ascontiguousarray(held.T), arrays[name]):
        return "transposed"
    for other, array in arrays.items():
        if same_bytes(held, array):
            return f"holds {other}"
    return "other values"
