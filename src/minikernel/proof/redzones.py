"""Put redzones around a kernel's memory, to see whether it writes outside its output.

Compilers' address sanitizers put redzones around each allocation; here they are ordinary memory with a known
content, a canary, compared after the kernel has run, so that it works on a CPU and on a GPU, without a rebuild, and
one stray element is enough. A kernel's input and everything that torch (from Python or C++) or CuPy allocates for it
lie between redzones. Each write is seen that changes a byte up to `REDZONE_BYTES` before or after such memory, or in
the gaps of a strided input. Further away, a write is seen only where it makes the process crash; memory that a
kernel gets from elsewhere (NumPy, malloc, cudaMalloc) has no redzones.
"""

import sys
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from minikernel.reasons import Place, Reason

REDZONE_BYTES = 1 << 16  # on each side; a multiple of 512, so that the memory between is aligned as torch's own is
CANARY = 0x7FFE  # repeated, it is NaN in every floating dtype: what is read there spoils the result as well
ZONES_KEPT = 64  # a kernel that allocates without end is checked on the way


@dataclass
class Zone:
    """One piece of memory and the redzones around it."""

    owner: Place  # whose memory it is, by a code under `owner` of the reasons' catalogue
    memory: torch.Tensor  # every byte, redzones included
    expected: torch.Tensor  # what they held
    writable: slice  # the bytes that a kernel may change

    def damage(self) -> Reason | None:
        """Say what was written that should not have been, as a reason; None where nothing was."""
        # a write may still be under way
        if self.memory.is_cuda:
            torch.cuda.synchronize(self.memory.device)
        changed = self.memory != self.expected
        changed[self.writable] = False
        places = changed.nonzero()
        if not len(places):
            return None
        first, end = int(places[0]) - REDZONE_BYTES, len(self.memory) - 2 * REDZONE_BYTES
        # where the first byte lies tells what kind of mistake it is: an index below 0, past the end, or into a gap
        if first < 0:
            place: Place = {"code": "before", "distance": -first}
        elif first >= end:
            place = {"code": "after", "distance": first - end}
        else:
            place = {"code": "between"}
        return {"code": "wrote_outside", "bytes": len(places), "place": place, "owner": self.owner}


def between_redzones(n_bytes: int, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocate `n_bytes` of memory between two redzones.

    Returns:
        (inside, all): uint8 tensors; the storage of `inside` starts and ends between the redzones, and it keeps
        the rest alive. Everything holds the canary.
    """
    words = torch.full(((n_bytes + 1) // 2 + REDZONE_BYTES,), CANARY, dtype=torch.int16, device=device)
    memory = words.view(torch.uint8)[: n_bytes + 2 * REDZONE_BYTES]
    # Through DLPack the inside gets a storage of its own: as a view, its storage would show the redzones as its memory.
    return torch.from_dlpack(memory[REDZONE_BYTES : REDZONE_BYTES + n_bytes]), memory


class Redzones(TorchDispatchMode):
    """Put every tensor that a kernel allocates inside the block between redzones; `damage` says what was hit.

    Compiled functions run uncompiled meanwhile, because Dynamo and dispatch modes exclude each other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Zone] = []
        self.zones: deque[Zone] = deque()
        self.found: Reason | None = None
        self._entered: list[ExitStack] = []

    def input(self, x: torch.Tensor, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
        """A copy of `x` in another dtype on a device, with its strides and its offset from an aligned address."""
        # The whole storage is laid out, with its gaps: a strided input's gaps are part of what nobody may write.
        count = x.untyped_storage().nbytes() // x.element_size()
        inside, memory = between_redzones(count * dtype.itemsize, device)
        placed = inside.view(dtype).as_strided(x.shape, x.stride(), x.storage_offset()).copy_(x)
        # nothing of it is writable
        self.inputs.append(Zone({"code": "input"}, memory, memory.clone(), slice(0, 0)))
        return placed

    def damage(self) -> Reason | None:
        """Return the first damage found, as a reason; None while there is none."""
        for zone in (*self.inputs, *self.zones):
            self.found = self.found or zone.damage()
        return self.found

    def __enter__(self) -> "Redzones":
        # Entered again for each of a user's own operators: Dynamo and CuPy are switched once.
        outermost = not self._entered
        stack = ExitStack()
        if outermost:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            # only where the kernel has imported it: CuPy's allocations do not come through torch
            if "cupy" in sys.modules:
                stack.enter_context(sys.modules["cupy"].cuda.using_allocator(self._allocate_for_cupy))
        self._entered.append(stack)
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._entered.pop().close()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if func.namespace == "aten" or not tensors:
            result = func(*args, **kwargs)
        else:  # a user's own operator: what it allocates inside lies between redzones too
            # Inside a dispatch mode the mode is off: entered again, it sees what the operator's own kernel allocates.
            with self:
                backend = torch._C._parse_dispatch_key(tensors[0].device.type.upper())
                result = func.redispatch(torch._C.DispatchKeySet(backend), *args, **kwargs)
        known = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.layout == torch.strided}
        return tree_map_only(torch.Tensor, lambda made: self._enclose(made, known), result)

    def _enclose(self, made: torch.Tensor, known: set[int]) -> torch.Tensor:
        """`made` itself where it is a view of a tensor that was there, else a copy between redzones."""
        plain = made.layout == torch.strided and made.device.type in ("cpu", "cuda")
        if not plain or not made.numel() or made.untyped_storage().data_ptr() in known:
            return made
        n_bytes = made.untyped_storage().nbytes()
        dtype = str(made.dtype).removeprefix("torch.")
        owner = {"code": "tensor", "dtype": dtype, "shape": list(made.shape)}
        inside = self._zone(n_bytes, made.device, owner)
        inside.untyped_storage().copy_(made.untyped_storage())
        return inside.view(made.dtype).as_strided(made.shape, made.stride(), made.storage_offset())

    def _zone(self, n_bytes: int, device: torch.device | str, owner: Place) -> torch.Tensor:
        # Each zone is its memory twice; the oldest is looked at and let go.
        if len(self.zones) == ZONES_KEPT:
            oldest = self.zones.popleft().damage()
            self.found = self.found or oldest
        inside, memory = between_redzones(n_bytes, device)
        writable = slice(REDZONE_BYTES, REDZONE_BYTES + n_bytes)
        self.zones.append(Zone(owner, memory, memory.clone(), writable))
        return inside

    def _allocate_for_cupy(self, n_bytes: int):
        cuda = sys.modules["cupy"].cuda
        with _disable_current_modes():  # redzones need none themselves
            inside = self._zone(n_bytes, f"cuda:{cuda.Device().id}", {"code": "cupy", "bytes": n_bytes})
        return cuda.MemoryPointer(cuda.UnownedMemory(inside.data_ptr(), n_bytes, inside), 0)
