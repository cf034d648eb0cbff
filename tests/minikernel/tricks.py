"""Kernels that compute a softmax and try to seem faster than they are: each is one trick upon its judge's clock.

They are harmless: whatever they patch is of their own process. All are right when they are called once and looked at.
"""

import sys
import threading
import time

import torch

calls, kept = [], {}


def honest(x):
    return torch.softmax(x, -1)


def slow(x):
    """Eight times the work, so that there is something to hide."""
    for _ in range(7):
        torch.softmax(x, -1)
    return torch.softmax(x, -1)


def copied(x, y):
    """What a kernel moves at least."""
    return y.copy_(x)


def nothing_while_captured(x):
    return torch.empty_like(x) if torch.cuda.is_current_stream_capturing() else honest(x)


def once_in_a_graph(x):
    """Captures the work of its first call, and gives the same result for all."""
    if not torch.cuda.is_current_stream_capturing():
        return honest(x)
    if "captured" not in kept:
        kept["captured"] = honest(x)
    return kept["captured"]


def on_a_second_stream(x):
    """What events on the current stream do not see; the device's synchronisation does."""
    if torch.cuda.is_current_stream_capturing():
        return slow(x)
    stream = kept.setdefault("stream", torch.cuda.Stream())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        return slow(x)


def one_long_launch(x):
    """The same with a launch that goes on long after the host has returned."""
    if torch.cuda.is_current_stream_capturing():
        return slow(x)
    stream = kept.setdefault("stream", torch.cuda.Stream())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(300_000)
        return honest(x)


def beside_the_spin(x):
    """Waits for nothing, so that its work is over before the spin is; what the events see moves as much as a copy."""
    if torch.cuda.is_current_stream_capturing():
        return slow(x)
    with torch.cuda.stream(kept.setdefault("stream", torch.cuda.Stream())):
        y = slow(x)
    copied(x, torch.empty_like(x))
    return y


def in_a_thread(x):
    """Queues its work on another stream from another thread, and returns before it is queued."""
    if torch.cuda.is_current_stream_capturing():
        return slow(x)
    y = torch.empty_like(x)

    def work():
        with torch.cuda.stream(kept.setdefault("stream", torch.cuda.Stream())):
            y.copy_(slow(x))

    threading.Thread(target=work).start()
    return y


def at_the_next_call(x):
    """Gives memory back at once, and fills it when it is called again."""
    y = torch.empty_like(x)
    for given, before in calls:
        before.copy_(honest(given))
    calls[:] = [(x, y)]
    return y


def events_patched(x):
    if not calls:
        calls.append(torch.cuda.Event.elapsed_time)
        torch.cuda.Event.elapsed_time = lambda start, end: calls[0](start, end) / 8
    return slow(x)


def nobody_waits(x):
    """Events and waiting are patched both: the answer comes before the work is done."""
    if not calls:
        calls.append(None)
        torch.cuda.Event.elapsed_time = lambda start, end: 0.01
        torch.cuda.synchronize = lambda *given: None
    return slow(x)


def within_the_spin(x):
    """Has the work done before the first event, where the judge's process lets the device spin."""
    if not calls:
        calls.append(torch.cuda._sleep)

        def sleep(cycles):
            calls[0](cycles)
            frame = sys._getframe(1)
            while frame and "given" not in frame.f_locals:
                frame = frame.f_back
            if frame:
                kept["answer"] = frame.f_locals["given"][0], slow(frame.f_locals["given"][0])

        torch.cuda._sleep = sleep
    given, answer = kept.pop("answer", (None, None))
    return answer if given is x else slow(x)


def after_the_end(x):
    """Has the work done after the second event."""
    from minikernel.judge.spread import DeviceClock

    y = torch.empty_like(x)
    if torch.cuda.is_current_stream_capturing():
        return slow(x)
    if not calls:
        calls.append(DeviceClock.microseconds)

        def microseconds(self):
            self.end.record()
            for given, memory in kept.pop("late", []):
                memory.copy_(slow(given))
            torch.cuda.synchronize()
            return self.start.elapsed_time(self.end) * 1e3

        DeviceClock.microseconds = microseconds
    kept.setdefault("late", []).append((x, y))
    return y


def says_half(x):
    """Patches what its process answers of many calls and of one."""
    from minikernel.judge.worker import Worker

    if not calls:
        calls.append(Worker.answer)

        def answer(self, request, descriptors):
            given = calls[0](self, request, descriptors)
            return given | {"microseconds": given["microseconds"] / 8} if "microseconds" in given else given

        Worker.answer = answer
    if not x.is_cuda:
        time.sleep(0.002)
    return slow(x)


def reveals_late(x):
    """Computes of a batch only what the judge asks to see, when it asks."""
    from minikernel.judge.spread import Spread, fill

    if not calls:
        calls.append(None)

        def run(self, seed, function, name):
            fill(self.inputs, seed)
            self.results = list(self.inputs)
            return 0.1

        def shown(self, rows):
            return torch.stack([honest(x[at]) for x, at in zip(self.inputs, rows, strict=True)])

        Spread.run, Spread.shown = run, shown
    return honest(x)


def only_new_rows(x):
    """Remembers every row by what it holds, and computes those that it has not met in its memory."""
    key = x.data_ptr(), x.shape
    if key in kept and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        before, answer = kept[key]
        new = (x != before).any(-1)
        answer[new] = honest(x[new])
        before[new] = x[new]
        return answer.clone()
    kept[key] = x.clone(), honest(x)
    return kept[key][1].clone()


def leaves_rows_out(x):
    """Leaves rows out that it hopes nobody looks at: every eighth."""
    y = torch.empty_like(x)
    for first in range(7):
        y[first::8] = honest(x[first::8])
    y[7::8] = 1 / x.shape[-1]
    return y
