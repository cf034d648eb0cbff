"""Forks of a server that has imported what they need: confined as a command is, and begun at once."""

import os
import signal
import time

import pytest

from minilab.sandbox.forks import Forked, ForkServer
from minilab.sandbox.process import Ending

HERE = os.path.dirname(__file__)
VARIABLES = {"PYTHONPATH": os.pathsep.join([HERE, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]), "SAID": "said"}
MODULE = os.path.splitext(os.path.basename(__file__))[0]


def writes(descriptor: int, *words: str) -> None:
    print("to be read")
    os.write(descriptor, " ".join([os.environ["SAID"], *words]).encode())


def behaves(how: str) -> None:
    if how == "sleeps":
        time.sleep(600)
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "eats":
        eaten = [b"x" * (1 << 27)]
        while True:
            eaten.append(bytes(eaten[0]) + b"x")


@pytest.fixture(scope="module")
def server():
    with ForkServer(f"{MODULE}:behaves", VARIABLES) as server:
        yield server


def test_it_is_given_descriptors_and_arguments_and_is_heard():
    reading, writing = os.pipe()
    with (
        ForkServer(f"{MODULE}:writes", VARIABLES) as server,
        Forked(server, ["two", "words"], 0, (writing,)) as forked,
    ):
        assert forked.wait(60) == Ending(0)
        assert forked.printed.read() == b"to be read\n"
    os.close(writing)
    assert os.read(reading, 100) == b"said two words"
    os.close(reading)


def test_a_server_with_threads_of_autograd_s_begins_each_call_anew(capfd):
    reading, writing = os.pipe()
    with (
        ForkServer(
            "threaded:writes", {"PYTHONPATH": f"{os.path.dirname(HERE)}{os.pathsep}{VARIABLES['PYTHONPATH']}"}
        ) as server,
        Forked(server, ["two", "words"], 0, (writing,)) as forked,
    ):
        assert forked.wait(60) == Ending(0)
    os.close(writing)
    assert os.read(reading, 100) == b"True two words"
    os.close(reading)
    assert "threaded:writes begins in a new process each time" in capfd.readouterr().err


def test_each_way_of_ending_is_told(server: ForkServer):
    with Forked(server, ["returns"], 0, ()) as returns, Forked(server, ["crashes"], 0, ()) as crashes:
        assert returns.wait(60) == Ending(0)
        assert crashes.wait(60) == Ending(-signal.SIGSEGV)


def test_memory_is_limited(server: ForkServer):
    with Forked(server, ["eats"], 1 << 29, ()) as eats:
        assert eats.wait(60) == Ending(None, "memory")


def test_one_that_does_not_end_is_ended_and_others_go_on(server: ForkServer):
    with Forked(server, ["returns"], 0, ()) as other:
        with Forked(server, ["sleeps"], 0, ()) as sleeps:
            assert sleeps.wait(0.1) is None
            assert sleeps.end() == Ending(None)
        assert other.wait(60) == Ending(0)


def test_a_server_that_was_ended_is_started_anew(server: ForkServer):
    os.kill(server._server.pid, signal.SIGKILL)
    server._server.wait()
    with Forked(server, ["returns"], 0, ()) as forked:
        assert forked.wait(60) == Ending(0)


def test_the_server_ends_with_whoever_started_it():
    with ForkServer(f"{MODULE}:behaves", VARIABLES) as server:
        server._talk.close()
        assert server._server.wait(60) == 0
