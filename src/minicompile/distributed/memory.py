"""Measures the peak memory of one rank on a CPU, from its live tensors; on a GPU CUDA's allocator knows it.

A CPU's allocator keeps no peak, and a process's resident size is mostly libraries. So every storage that an operator
returns is held weakly, and after each operator the sizes of those still alive are summed; this is the idea of torch's
own `MemTracker`. What an operator allocates and frees inside itself, and gloo's own buffers, are not seen.
"""

import weakref

from torch import Tensor
from torch.distributed.tensor import DTensor

from minicompile.torch_private.tensors import TorchDispatchMode, storage_identity, tree_leaves


class LiveTensors(TorchDispatchMode):
    """Sums the bytes of the CPU tensors that were made since it was entered and are still alive.

    Attributes:
        peak: the largest sum since `reset_peak`, in bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storages: dict[int, weakref.ref] = {}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its local tensors come back here
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.device.type == "cpu":
                storage = leaf.untyped_storage()
                self._storages[storage_identity(storage)] = weakref.ref(storage)
        self.peak = max(self.peak, self.live())
        return result

    def live(self) -> int:
        """Sum the bytes alive now. A storage's size is asked anew: FSDP empties a gathered one and keeps the object."""
        alive = {key: storage for key, reference in self._storages.items() if (storage := reference()) is not None}
        self._storages = {key: self._storages[key] for key in alive}
        return sum(storage.nbytes() for storage in alive.values())

    def reset_peak(self) -> None:
        self.peak = self.live()
