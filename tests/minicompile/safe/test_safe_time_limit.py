"""A compile that hangs is ended in the main thread, noticed anywhere else, and leaves the model as it was."""

import logging
import signal
import subprocess
import threading
import time

import pytest
from safe_models import MLP, features, fingerprint

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe.smoketest import smoketest
from minicompile.safe.smoketest.time_limit import time_limit

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)


def hanging(graph_module, example_inputs):
    """Waits for a compiler that never ends."""
    subprocess.run(["sleep", "60"], check=True)
    return graph_module


def test_a_hanging_compiler_is_killed_and_the_model_stays_eager():
    model = MLP()
    before = fingerprint(model)
    maybe_compile(model, CompileConfig(enabled=True, backend=hanging, time_limit_seconds=0.5), logger, features())
    report = compile_report(model)
    assert (report.compiled, report.stage) == (False, "time_limit")
    assert report.seconds < 30
    assert fingerprint(model) == before


def test_in_place_in_another_thread_the_limit_is_noticed_and_counts_when_the_compile_returns(caplog, monkeypatch):
    monkeypatch.setattr(smoketest, "why_not", lambda tensors: "the test asks for it")

    def slow(graph_module, example_inputs):
        time.sleep(1)
        return graph_module

    model = MLP()
    cfg = CompileConfig(enabled=True, backend=slow, time_limit_seconds=0.2)
    thread = threading.Thread(target=maybe_compile, args=(model, cfg, logger, features()))
    thread.start()
    thread.join()
    assert compile_report(model).stage == "time_limit"
    assert any("cannot be interrupted where it stands" in record.getMessage() for record in caplog.records)


def test_the_caller_s_own_alarm_goes_on():
    heard = []
    handler = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with time_limit(30, "nothing", logger):
            pass
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        deadline = time.monotonic() + 120
        while not heard and time.monotonic() < deadline:
            time.sleep(0.01)
        assert heard
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def test_no_limit_sets_no_alarm():
    handler = signal.getsignal(signal.SIGALRM)
    with time_limit(None, "nothing", logger):
        assert signal.getsignal(signal.SIGALRM) is handler
