"""A script that compiles elsewhere, ahead of time and with caches: its page has all of it, or says what it has not."""

import json
import os
import signal
import subprocess
import sys

import pytest
from declared_faults import check_says, fault, words_of

from minicompile.unseen import processes

SCRIPT = """
import os, signal, subprocess, sys
import torch
CODE = "import torch; torch.compile(lambda x: x.{} () * 2)(torch.ones(8))"
handed_on = torch.compile(lambda x: x.tan() * 2)
def ahead(x):
    return torch.softmax(x * 2, -1)
if __name__ == "__main__":
    started = [sys.executable, "-c", CODE.format("sigmoid")]
    subprocess.run(started, env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}, check=True)
    for ending in ("exit", "kill"):
        if (child := os.fork()) == 0:
            handed_on(torch.ones(8))
            os._exit(3) if ending == "exit" else os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    if (child := os.fork()) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    x = torch.randn(8, 64)
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(ahead)(x)
    counts = dict(torch._dynamo.utils.counters["inductor"]), dict(torch._dynamo.utils.counters["aot_autograd"])
    class Head(torch.nn.Module):
        def forward(self, x):
            return x * 2
    torch._inductor.aot_compile(torch.export.export(Head(), (x,)).module(), (x,))
    made, info = torch.compiler.save_cache_artifacts()
    print(len(info.inductor_artifacts), "kept", counts, flush=True)
    def saved(x):
        return torch.softmax(x * 2, -1)
    torch.compile(saved, fullgraph=True).aot_compile(((x,), {}))
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    (folder / "script.py").write_text(SCRIPT)
    settings = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "minicompile",
            "explore",
            "--verify=none",
            "--out",
            folder / "out",
            folder / "script.py",
        ],
        capture_output=True,
        text=True,
        env=settings,
        check=False,
    )
    assert made.returncode == -signal.SIGTERM, made.stderr
    assert "index.html tells what was compiled" in made.stderr
    return made.stdout, folder / "out"


@fault("a script compiles in processes that it starts", None, "Each has its folder, and the page links to them all.")
@fault(
    "one of them is killed before it has written what it compiled",
    "What one process that was started compiled, if anything, is not seen: it ended too early, runs still, or its "
    "Python kept the lab out (-E, -I, another installation).",
    "The page has the others.",
)
def test_each_process_has_its_folder_and_the_page_has_them_all(explored, says):
    _, out = explored
    captures = [out / "ahead" / "capture.json", *(out / f"process_{number}" / "capture.json" for number in (1, 2))]
    texts = [json.loads(path.read_text())["panes"] for path in captures]
    for name, panes in zip(("softmax", "sigmoid", "tan"), texts, strict=True):
        assert any(name in line for pane in panes for line in pane["lines"])
    assert 'href="process_2/explorer.html"' in (out / "index.html").read_text()
    check_says(words_of(out / "index.html"), says)
    assert "runs eager" not in (out / "index.html").read_text()  # one process has compiled it, and this handed it on


def test_of_the_processes_that_python_starts_those_of_inductor_s_are_none_of_the_script_s():
    assert processes._is_python([sys.executable, "-c", "import torch"])
    own = [sys.executable, "/packages/torch/_inductor/compile_worker/__main__.py", "--workers=2"]
    assert not processes._is_python(own)


def test_what_is_compiled_ahead_for_torch_compile_is_shown_under_its_name(explored):
    _, out = explored
    assert json.loads((out / "saved" / "capture.json").read_text())["graphs"]
    page = (out / "index.html").read_text()
    assert "asked for by itself, not by a call" in page


@fault(
    "a model is compiled ahead of time",
    "One model was compiled ahead of time, by AOTInductor, and is not shown.",
    "It is made.",
)
def test_what_went_by_aotinductor_is_named(explored, says):
    check_says(words_of(explored[1] / "index.html"), says)


@fault("a script counts or keeps what torch cached", None, "It counts and keeps what it does without `explore`.")
def test_what_a_script_counts_and_keeps_is_as_without(explored):
    assert explored[0].startswith("1 kept")
    assert "'fxgraph_cache_miss': 1, 'fxgraph_cache_hit': 1" in explored[0]
    assert "'ok': 2" in explored[0]
