"""The pool of results' memory: used again when nobody holds it, and never before."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from minikernel.ops.cpu.pool import KEPT, LEAST_BYTES, Pool

LARGE = torch.empty(LEAST_BYTES // 4)


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_memory_is_used_again_once_its_tensor_is_gone(pool: Pool):
    address = pool.empty_like(LARGE).data_ptr()
    assert pool.empty_like(LARGE).data_ptr() == address


HOLDERS = {
    "the tensor": lambda y: y,
    "a view": lambda y: y[3:5],
    "a reshaped view": lambda y: y.view(2, -1)[0],
    "its storage": lambda y: y.untyped_storage(),
    "its NumPy array": lambda y: y.numpy(),
    "a DLPack capsule's tensor": lambda y: torch.from_dlpack(y),
    "a closure": lambda y: lambda: y.sum(),
    "an autograd graph": lambda y: torch.ones_like(y, requires_grad=True) * y,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_anything_refers_to_is_not_used_again(pool: Pool, holder: str):
    y = pool.empty_like(LARGE)
    address = y.data_ptr()
    held = HOLDERS[holder](y)
    del y
    gc.collect()
    other = pool.empty_like(LARGE)
    assert other.data_ptr() != address
    del held, other
    gc.collect()
    assert address in {one.data_ptr() for one in [pool.empty_like(LARGE) for _ in range(KEPT)]}


def test_a_shape_gets_memory_of_its_own_size_alone(pool: Pool):
    pool.empty_like(LARGE)
    twice = pool.empty_like(torch.empty(2, LARGE.numel()))
    assert twice.untyped_storage().nbytes() == 2 * LEAST_BYTES
    assert twice.shape == (2, LARGE.numel())


def test_no_more_is_kept_than_is_said(pool: Pool):
    held = [pool.empty_like(LARGE) for _ in range(KEPT + 3)]
    addresses = {one.data_ptr() for one in held}
    assert len(addresses) == KEPT + 3
    del held
    gc.collect()
    assert len(pool._free) == KEPT


def test_small_results_do_not_come_from_the_pool(pool: Pool):
    pool.empty_like(torch.empty(8))
    assert not pool._free


def test_memory_may_come_back_while_another_piece_is_sought(pool: Pool):
    class Dying:
        """A piece of another size, during whose inspection a tensor dies."""

        @property
        def nbytes(self) -> int:
            pool._free.append(Dying())
            return 0

    pool._free.append(Dying())
    assert pool.empty_like(LARGE).numel() == LARGE.numel()


def test_threads_never_share_memory_that_both_hold(pool: Pool):
    def hold(number: int) -> bool:
        for _ in range(200):
            y = pool.empty_like(LARGE)
            y.fill_(number)
            if not bool((y == number).all()):
                return False
        return True

    with ThreadPoolExecutor(4) as several:
        assert all(several.map(hold, range(4)))
