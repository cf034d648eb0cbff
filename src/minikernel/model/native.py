"""A further call of `minigpt_forward`: by `native.cpp`, or where there is no C++ compiler, by the same steps in Python.

torch's own extension builder compiles it at a model's second call on a GPU, in ten to twenty seconds, and keeps the
result in its cache.
"""

import ctypes
import functools
import hashlib
import logging
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minikernel.model.driver import Launch, library
from minikernel.model.weights import Weights, last_weights_of
from minimodel.torch_minigpt import GrammarMiniGPT

SOURCE = Path(__file__).parent / "native.cpp"
_forgotten_in_time: "weakref.WeakSet[GrammarMiniGPT]" = weakref.WeakSet()  # before another has their address
logger = logging.getLogger(__name__)


# The same steps as native.cpp's `again`, in the same order, so that a machine without a compiler behaves alike.
def in_python(model: GrammarMiniGPT, ids: Tensor, probabilities: bool) -> Tensor | None:
    """The output by an earlier call's launch; None: there is none for these ids, or the weights have changed since.

    The kernel is launched before the parameters are looked at, which takes the host about as long as it takes the GPU
    to compute a short pass. Where one has changed, what that launch writes is nobody's.
    """
    weights = last_weights_of(model)
    # a subclass may mean something else by any operation
    if weights is None or type(ids) is not Tensor:
        return None
    launch = weights.launches.get((ids.shape, probabilities))
    if launch is None or ids.dtype is not torch.int64 or ids.get_device() != launch.device or not ids.is_contiguous():
        return None
    if launch.device >= 0:
        extension()  # from the next call on
    out = room(weights, ids)
    launch(ids, out)
    weights.launched()
    # looked at while the GPU computes
    return out if weights.snapshot.current() else None


again = in_python  # or native.cpp's, once it is there: the result of a further call, or None


def room(weights: Weights, ids: Tensor) -> Tensor:
    """Memory for the output (B, T, V)."""
    return torch.empty((*ids.shape, weights.config.vocab_size), dtype=weights.dtype, device=weights.device)


def keep(model: GrammarMiniGPT, weights: Weights, shape: torch.Size, probabilities: bool, launch: Launch) -> None:
    """Have a model's further calls with ids (B, T) launch the same again."""
    if again is in_python:
        return
    native = extension()
    if weights.kept_by is not native:
        # the model has been packed anew meanwhile
        if last_weights_of(model) is not weights:
            return
        native.keep(model, weights, weights.snapshot.tables(), weights.tokens, weights.config.vocab_size)
        weights.kept_by = native
        if model not in _forgotten_in_time:
            _forgotten_in_time.add(model)
            # The extension knows a model by its address, which another object may get once the model is gone.
            weakref.finalize(model, native.forget, id(model)).atexit = False
    native.add(model, *shape, bool(probabilities), *launch.fields)


@functools.cache
def extension() -> Any:
    """The compiled module, which takes further calls over; None where it cannot be built."""
    global again
    try:
        made = build()
    except (OSError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        logger.warning("minikernel.minigpt_forward launches through Python, slower on the host: %s", reason)
        return None
    # The driver is loaded here already; C++ is handed the addresses and links nothing.
    calls = library().cuLaunchKernel, library().cuStreamIsCapturing
    made.use_driver(*(ctypes.cast(call, ctypes.c_void_p).value for call in calls))
    again = made.again
    return made


def build() -> Any:
    """Compile and load the extension.

    Raises:
        OSError, RuntimeError, ImportError: there is no C++ compiler or no ninja, or the source does not compile.
    """
    from torch.utils import cpp_extension

    digest = hashlib.sha256(f"{SOURCE.read_text()}{torch.__version__}".encode()).hexdigest()[:12]
    return cpp_extension.load(f"minikernel_model_{digest}", [str(SOURCE)], extra_cflags=["-O2"])
