"""`minicompile show`: the kernels of an expression, explained, and what it refuses."""

import sys
import webbrowser

import pytest

from minicompile import command
from minicompile.command import show

HEADING = "# simulated target: Triton for an H200"


def shown(capsys, *arguments: str) -> str:
    """What the command prints; nothing compiles for the simulated target but Inductor itself, which takes a second."""
    assert command.main(["show", *arguments, "--target", "simulated"]) == 0
    return capsys.readouterr().out


def test_every_line_that_computes_stands_under_its_explanation(capsys):
    told = shown(capsys, "lambda x, w: torch.softmax(x, -1) * w", "8x600:bfloat16", "600")
    lines = told.splitlines()
    assert lines[0].startswith(HEADING)
    assert "# By Inductor's notes: This kernel computes softmax over the last axis of 8x600, and more" in told
    computing = [at for at, line in enumerate(lines) if line.strip().startswith("tmp") or "tl.store(" in line]
    assert len(computing) > 10
    assert all(lines[at - 1].strip().startswith("# ") for at in computing)
    assert "'in_ptr0': '*bf16', 'in_ptr1': '*fp32'" in told
    assert "\x1b" not in told


def test_calls_of_a_library_are_told_and_where_no_kernel_is_it_says_so(capsys):
    told = shown(capsys, "lambda x, w: torch.softmax(x @ w, -1)", "8x64", "64x600", "--language", "es")
    assert "\n# extern_kernels.mm: llamada a una biblioteca, para mm\n" in told
    assert told.count("@triton.jit") == 1
    assert "Nothing was fused here" in shown(capsys, "lambda x: 3", "scalar")


def test_a_module_and_inputs_that_hold_no_fractions_are_taken(capsys):
    assert "look up rows of a table" in shown(capsys, "nn.Embedding(10, 64)", "5:int64")


def test_the_page_is_written_and_opened(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    shown(capsys, "lambda x: x + 1", "3", "--open")
    assert opened == [(tmp_path / show.PAGE).as_uri()]
    assert "lambda x: x + 1" in (tmp_path / show.PAGE).read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lambda x: x[0", "3"], "the expression cannot be evaluated: SyntaxError: "),
        (["", "3"], "the expression cannot be evaluated: SyntaxError: "),
        (["import os", "3"], "the expression cannot be evaluated: SyntaxError: "),
        (["torch.softmax(x, -1)", "3"], "NameError: name 'x' is not defined; write a function of the inputs"),
        (["exit()", "3"], "the expression cannot be evaluated: SystemExit"),
        (["3", "3"], "the expression gives a value of type int and no function; write"),
        (["lambda x: foo(x)", "3"], "the expression fails without torch.compile too: NameError: name 'foo'"),
        (["lambda x: exit()", "3"], "the expression fails without torch.compile too: SystemExit"),
        (["lambda x, y: x + y", "3"], "missing 1 required positional argument: 'y'; mend it or its inputs."),
        (["lambda x, y: x + y", "3", "4"], "The size of tensor a (3) must match the size of tensor b (4)"),
        (["torch.relu", "3x"], "'3x' is no input; write sizes, and a dtype if it is not float32"),
        (["torch.relu", "-3"], "'-3' is no input"),
        (["torch.relu", "3:flaot16"], "'3:flaot16': torch has no dtype 'flaot16'; write float16, say."),
        (["torch.relu", "3:qint8"], "'3:qint8': torch makes no such tensor: RuntimeError"),
        (["torch.relu", "999999999x99999999999"], "takes more than a quarter of this machine's memory"),
        (["torch.relu", "x".join(["1"] * 65)], "has 65 dimensions; a tensor has at most 64."),
    ],
)
def test_what_is_wrong_with_an_expression_or_an_input_is_one_sentence(arguments, sentence, capsys):
    assert command.main(["show", "--target", "simulated", "--", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1


def test_what_torch_compile_alone_cannot_do_is_one_sentence(capsys, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no lowering\nof this")

    monkeypatch.setattr(show, "watched_at_command", fails)
    assert command.main(["show", "torch.relu", "3"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: torch.compile does not compile the expression, though PyTorch runs it: RuntimeError")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["show", "torch.relu", "3"], ["capture", "tiny_head"]])
def test_without_a_c_compiler_nothing_is_compiled_and_it_says_what_to_install(arguments, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    assert command.main(arguments) == 1
    said = capsys.readouterr().err
    assert "Error: torch.compile needs a C++ compiler for this CPU" in said
    assert "install g++" in said


def test_a_terminal_gets_colours_unless_somebody_wants_none(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show._print(["# 1: adds", "x = 1"], "python")
    assert capsys.readouterr().out.startswith("\x1b[36m# 1: adds\x1b[")
    monkeypatch.setenv("NO_COLOR", "1")
    show._print(["# 1: adds", "x = 1"], "python")
    assert capsys.readouterr().out == "# 1: adds\nx = 1\n"
