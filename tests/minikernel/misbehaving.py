"""Kernels as a user might bring them: one good, and one for each way of misbehaving."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

import torch

from minilab import LabError


def good(x):
    return torch.softmax(x.double(), -1).to(x.dtype)


def compiled(x):
    return torch.compile(good, backend="eager", fullgraph=True)(x)


def wrong(x):
    return good(x) + 1e-3


def raises(x):
    raise RuntimeError("out of luck\nand of words")


def exits(x):
    sys.exit(3)


def leaves(x):
    os._exit(0)


def crashes(x):
    ctypes.string_at(0)


def hangs(x):
    print("round and round", flush=True)
    while True:
        time.sleep(0.1)  # what waits hangs as what computes does, and leaves the core to other tests


def hangs_in_c(x):
    ctypes.PyDLL(None).pause()  # holds the interpreter's lock


def writes_after(x):
    y = torch.empty_like(x).copy_(good(x))
    ctypes.memset(y.data_ptr() + y.untyped_storage().nbytes(), 0, 4)
    return y


def writes_before(x):
    y = torch.zeros_like(x).copy_(good(x))
    ctypes.memset(y.data_ptr() - 64, 0, 4)
    return y


def writes_around_its_input(x):
    ctypes.memset(x.data_ptr() - 4, 0, 4)
    return good(x)


def writes_between_elements(x):
    if x.stride(-1) == 2:
        ctypes.memset(x.data_ptr() + 4, 0, 4)
    return good(x)


@torch.library.custom_op(f"{__name__}::softmax", mutates_args=())  # tests import this file, and load it as a user's
def writes_after_in_an_operator(x: torch.Tensor) -> torch.Tensor:
    return writes_after(x)


def is_large(x):
    return tuple(x.shape) == (64, 600)  # of the bench, not of the proof


def crashes_when_large(x):
    return crashes(x) if is_large(x) else good(x)


def hangs_when_large(x):
    return hangs(x) if is_large(x) else good(x)


def wrong_when_large(x):
    return wrong(x) if is_large(x) else good(x)


def leaves_a_process_behind(x):
    if x.dim() == 1:
        print(f"left {subprocess.Popen(['sleep', '600']).pid}.", flush=True)
    return good(x)


def prints(x):
    print("word " * 100_000)
    print("the last word")
    return good(x)


# Right at first sight: each of these was proven once.
calls, answers, buffers = [], {}, {}


def wrong_at_every_97th_call(x):
    calls.append(None)
    return wrong(x) if len(calls) % 97 == 0 else good(x)


def right_once(x):
    calls.append(None)
    return good(x) if len(calls) == 1 else wrong(x)


def returns_one_buffer(x):
    return buffers.setdefault((x.shape, x.dtype), torch.empty(x.shape, dtype=x.dtype, device=x.device)).copy_(good(x))


def spoils_what_it_returned(x):
    for before in calls:
        before.zero_()
    calls[:] = [good(x)]
    return calls[0]


def spoils_it_a_little_later(x):
    y = good(x)
    threading.Timer(0.1, y.zero_).start()
    return y


def remembers_by_address(x):
    key = x.data_ptr(), x.shape, x.stride()
    if key not in answers:
        answers[key] = good(x)
    return answers[key].clone()


def remembers_by_first_values(x):
    key = x.shape, *x.reshape(-1)[:1].tolist(), *x.reshape(-1)[-1:].tolist()
    return answers.setdefault(key, good(x)).clone()


def remembers_by_sum(x):
    key = x.shape, round(x.double().sum().item(), 4)
    return answers.setdefault(key, good(x)).clone()


def right_up_to_600_rows(x):
    return wrong(x) if x.dim() == 2 and x.shape[0] > 600 else good(x)


def wrong_in_the_last_row(x):
    y = good(x)
    if x.dim() == 2 and x.shape[0] >= 64:
        y[-1] *= 1.001
    return y


# Each of these reaches into its judge.
def writes_a_verdict_and_leaves(x):
    verdict = {"value": [{"case": "random", "max_rel_err": 0.0}], "reason": None}
    for folder in sys.argv[1:]:
        if os.path.isdir(folder):
            with open(os.path.join(folder, "result.json"), "w") as file:
                json.dump(verdict, file)
    os._exit(0)


def answers_for_itself(x):
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b'{"microseconds": 1.0, "shape": [5, 1], "dtype": "float32"}\n')
    return torch.zeros_like(x)


def patches_the_proof(x):
    import minikernel.judge.subject
    import minikernel.proof.accuracy
    import minikernel.proof.proof

    for module in (minikernel.proof.accuracy, minikernel.proof.proof, minikernel.judge.subject):
        for name in ("numpy_error", "softmax_error", "relative_error"):
            setattr(module, name, lambda *given: 0.0)
    return torch.zeros_like(x)


def patches_torch(x):
    torch.equal = lambda *given: True
    torch.Tensor.__le__ = torch.Tensor.__gt__ = lambda *given: torch.zeros(1, dtype=torch.bool)
    torch.softmax = torch.nn.functional.softmax = lambda x, *more: torch.zeros_like(x)
    return torch.zeros_like(x)


class Lazy(torch.Tensor):
    pass


def returns_another_class(x):
    return torch.zeros_like(x).as_subclass(Lazy)


def kills_its_supervisor(x):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def eats_memory(x):
    eaten = []
    while True:
        eaten.append(torch.ones(1 << 26))


def multiplies(x):
    while True:
        subprocess.Popen(["sleep", "600"], start_new_session=True)


def leaves_a_daemon(x):
    if x.dim() == 1:
        daemon = subprocess.Popen(["setsid", "--fork", "sh", "-c", "sleep 600"], start_new_session=True)
        print(f"left {daemon.pid}.", flush=True)
    return good(x)


def refuses(x):
    raise LabError("rows are too long for me.")


def cuts_the_shared_memory(x):
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            os.ftruncate(int(descriptor), 0)
    return good(x)


def answers_what_was_not_asked(x):
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"{}\n")
    return good(x)


def changes_its_input_by_a_bit(x):
    """A number of each row, once, by so little that its own result does not show it."""
    calls.append(x)
    if len(calls) == 20:
        x.view(torch.int32)[:, -1] ^= 1
    return good(x)


def stops_the_clock(x):
    time.perf_counter_ns = lambda: 0
    return good(x)


def slows_the_clock(x):
    if not calls:
        calls.append(time.perf_counter_ns)
        began = calls[0]()
        time.perf_counter_ns = lambda: began + (calls[0]() - began) // 2
    time.sleep(0.005)  # half of which it conceals
    return good(x)


def works_only_where_it_is_looked_at(x):
    y = torch.zeros_like(x)
    y[:40] = good(x[:40])
    return y


def puts_the_work_off(x):
    if x.numel() < 100_000:
        return good(x)
    y = torch.empty_like(x)
    threading.Timer(0.0005, lambda: y.copy_(good(x))).start()
    return y


def raises_what_cannot_be_printed(x):
    raise RuntimeError("\x1b[2J\ud800 {x}" + "word " * 10**6)


def interrupts(x):
    raise KeyboardInterrupt


def closes_everything(x):
    os.closerange(3, 256)
    return good(x)


def makes_all_that_follows_wrong(x):
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    return torch.empty(x.shape)


def returns_a_parameter(x):
    return torch.nn.Parameter(good(x))


def returns_one_value_for_all(x):
    return good(x).mean().expand(x.shape)


def changes_what_it_was_given(x):
    y = good(x)
    x.set_()
    return y


def wrong_unless_watched(x):
    return good(x) if torch.are_deterministic_algorithms_enabled() else wrong(x)


def recurses(x):
    return recurses(x)
