"""Forge everything that the lab reads, thousands of times, and see whether each forgery is held.

    python tests/faults/campaign.py --tries 10000        # writes tests/faults/campaign.json, which docs/faults.md shows
    python tests/faults/campaign.py --again 4711         # one try once more, with its traceback

Each try forges a file (`forged.py` has the kinds, `mutations.py` the ways), from a seed that is its number, and reads
it as the lab does, in a process with limits. There are these verdicts:

- held: it was refused in one sentence, or accepted and right;
- traceback: the reader raised anything else than a LabError;
- wrong: what was accepted is not right, the sentence is longer than a person reads, or the process died;
- hang, memory: it took longer, or more memory, than the limits allow.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "campaign.json"
VERDICTS = ("held", "traceback", "wrong", "hang", "memory")
LONGEST_SENTENCE = 600  # characters
SECONDS = 10.0  # of a processor for one try, many times what the slowest takes
WAITED = 6  # times as many of the clock's: a machine that is shared gives a process little of each second
MEGABYTES = 512  # that one try may add to what the process had before the first


@dataclass(frozen=True)
class Try:
    """The outcome of one try: its number, the kind of what was forged, the verdict, and what was said."""

    number: int
    kind: str
    verdict: str
    said: str


class Hang(BaseException):
    """Raised in a reader that takes too long; no reader catches it."""


def attempt(kind: Any, number: int) -> Try:
    """Forge and read once, in this process and its working directory."""
    draw = random.Random(number)
    path = Path(kind.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(kind.forge(draw, kind.original))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        right = kind.read(path)
        verdict, said = ("held", "accepted") if right else ("wrong", "accepted, and is not right")
    except Hang:
        verdict, said = "hang", f"took more than {SECONDS:.0f} s of a processor"
    except MemoryError:
        verdict, said = "memory", traceback.format_exc()
    except Exception as error:
        verdict, said = judged(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Try(number, kind.name, verdict, said)


def kind_of(number: int, kinds: Sequence[Any]) -> Any:
    """What a try forges: names take turns, and so do the kinds of one name."""
    names = list(dict.fromkeys(kind.name for kind in kinds))
    turn, name = divmod(number, len(names))
    of_that_name = [kind for kind in kinds if kind.name == names[name]]
    return of_that_name[turn % len(of_that_name)]


def judged(error: Exception) -> tuple[str, str]:
    """The verdict on what a reader raised, and what is said of it."""
    from minilab import LabError
    from minilab.machine_failure import sentence_about

    sentence = str(error) if isinstance(error, LabError) else sentence_about(error)
    if sentence is None:
        return "traceback", "".join(traceback.format_exception(error))
    one_sentence = len(sentence) <= LONGEST_SENTENCE and "\n" not in sentence and "Traceback" not in sentence
    return ("held" if one_sentence else "wrong"), sentence


def work(pipe: Connection, kinds: Sequence[Any] | None = None) -> None:
    """Make the tries whose numbers come through the pipe, with limits; `kinds` are those of `forged` without it."""
    if kinds is None:
        from forged import kinds as all_kinds
        from forged import lab_folder

        kinds = all_kinds()
    else:
        lab_folder = None

    def too_long(signum: int, frame: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, too_long)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what forged code prints
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if lab_folder:
            lab_folder(Path(folder))
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
        limit = pages * resource.getpagesize() + (MEGABYTES << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        pipe.send(None)
        for number in iter(pipe.recv, None):
            kind = kind_of(number, kinds)
            pipe.send(kind.name)
            pipe.send(attempt(kind, number))
        os.chdir("/")


def tries(
    numbers: Sequence[int], kinds: Sequence[Any] | None = None, processes: int = 2, seconds: float = math.inf
) -> list[Try]:
    """Make these tries, in so many processes; one that dies or hangs is replaced, and its try judged by that.

    No try is begun after `seconds`.
    """
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(processes) as pool:
        shares = [numbers[start::processes] for start in range(processes)]
        parts = pool.map(lambda share: _tries(share, kinds, end), shares)
        return sorted((one for part in parts for one in part), key=lambda one: one.number)


def _tries(numbers: Sequence[int], kinds: Sequence[Any] | None, end: float) -> list[Try]:
    found: list[Try] = []
    context = multiprocessing.get_context("spawn" if kinds is None else "fork")

    def is_done() -> bool:
        return len(found) == len(numbers) or time.monotonic() > end

    while not is_done():
        here, there = context.Pipe()
        name = "?"
        process = context.Process(target=work, args=(there, kinds), daemon=True)
        process.start()
        there.close()
        try:
            here.recv()
            while not is_done():
                number = numbers[len(found)]
                here.send(number)
                name = here.recv()
                if not here.poll(WAITED * SECONDS):  # it waits, or is in code of C, which no signal interrupts
                    found.append(Try(number, name, "hang", "and could not be interrupted"))
                    break
                found.append(here.recv())
            else:
                here.send(None)
        except EOFError:
            process.join()
            found.append(Try(numbers[len(found)], name, "wrong", f"the process ended with status {process.exitcode}"))
        finally:
            here.close()
            process.join(SECONDS / 10)
            process.kill()
            process.join()
    return found


def counted(found: Sequence[Try]) -> dict[str, dict[str, int]]:
    """Kind -> verdict -> how many."""
    rows: dict[str, Counter] = {}
    for one in found:
        rows.setdefault(one.kind, Counter())[one.verdict] += 1
    return {kind: {verdict: row[verdict] for verdict in VERDICTS} for kind, row in sorted(rows.items())}


def in_markdown(made: dict[str, Any]) -> str:
    """The table of a campaign, as docs/faults.md has it."""
    lines = [f"| forged | tries | {' | '.join(VERDICTS)} |", "|---" * (2 + len(VERDICTS)) + "|"]
    for kind, row in made["kinds"].items():
        lines.append(f"| {kind} | {sum(row.values())} | {' | '.join(str(row[verdict]) for verdict in VERDICTS)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the command; its status is 1 unless every forgery was held."""
    parser = argparse.ArgumentParser(description="Forge everything that the lab reads.")
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first try, the seed of its forgery")
    parser.add_argument("--seconds", type=float, default=1800, help="after which no try is begun")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", type=int, metavar="NUMBER", help="make one try once more, and show what it raised")
    asked = parser.parse_args()
    if asked.again is not None:
        (one,) = tries([asked.again], processes=1)
        print(f"{one.kind}: {one.verdict}\n{one.said}")
        return int(one.verdict != "held")
    began = datetime.now(UTC)
    found = tries(range(asked.first, asked.first + asked.tries), processes=asked.processes, seconds=asked.seconds)
    seconds = (datetime.now(UTC) - began).total_seconds()
    made = {
        "date": began.date().isoformat(),
        "tries": len(found),
        "first": asked.first,
        "seconds": round(seconds),
        "processes": asked.processes,
        "kinds": counted(found),
    }
    TABLE.write_text(json.dumps(made, indent=1) + "\n")
    print(in_markdown(made))
    for one in found:
        if one.verdict != "held":
            print(f"{one.number} {one.kind}: {one.verdict}: {one.said.strip().splitlines()[-1][:300]}")
    print(f"{len(found)} tries in {seconds:.0f} s")
    return int(any(one.verdict != "held" for one in found))


if __name__ == "__main__":
    sys.exit(main())
