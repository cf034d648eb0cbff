"""The command: its subcommands, their help, and what they refuse."""

import argparse
import gzip
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minicompile import command, models
from minicompile.explain.reading import captures
from minicompile.watching.model import TARGETS
from minilab.config.check import read_schema

DATA = Path(__file__).parents[1] / "data"
SCRIPT = """
import sys
import torch

@torch.compile(options={"cpp.vec_isa_ok": True, "cpp.simdlen": 256})
def doubled(x):
    return x * 2 + 1

if __name__ == "__main__":
    print(sys.argv[1:], doubled(torch.ones(3)).tolist())
    sys.exit(3)
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "capture.json"
    path.write_bytes(gzip.decompress((DATA / "tiny_head_cpu.json.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", command.COMMANDS)
def test_every_option_says_what_it_does_and_begins_with_no_preposition(name):
    parser = argparse.ArgumentParser()
    importlib.import_module(command.COMMANDS[name]).add_arguments(parser)
    said = {action.dest: action.help or "" for action in parser._actions}
    assert [dest for dest, help_ in said.items() if not help_ or help_.startswith(("of ", "to "))] == []


def test_the_targets_that_the_help_explains_are_those_that_there_are():
    assert tuple(command.TARGETS) == TARGETS


@pytest.mark.parametrize("name", command.COMMANDS)
def test_every_subcommand_has_its_help(name, capsys):
    with pytest.raises(SystemExit) as left:
        command.main([name, "--help"])
    assert left.value.code == 0
    assert f"usage: minicompile {name}" in capsys.readouterr().out


def test_a_subcommand_that_is_unknown_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        command.main(["what"])
    assert f"choose from {', '.join(command.COMMANDS)})" in capsys.readouterr().err.replace("'", "")


def test_an_unchanged_script_is_run_as_python_would_run_it_and_shown(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    made = subprocess.run(
        [sys.executable, "-m", "minicompile", "explore", "--out", tmp_path / "out", script, "--steps", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 3, made.stderr
    assert made.stdout == "['--steps', '7'] [3.0, 3.0, 3.0]\n"
    assert "index.html tells what was compiled" in made.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "index.html", "watched.json.xz", "capture.json", "explorer.html", "annotation.md",
    }  # fmt: skip


def test_a_module_is_run_and_its_exception_is_shown_as_python_shows_it(tmp_path, monkeypatch, capfd):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("def fails():\n    raise ValueError('of the script')\n")
    (package / "train.py").write_text("import os, sys\nfrom .part import fails\nos.chdir('/')\nfails()\n")
    monkeypatch.chdir(tmp_path)
    assert command.main(["explore", "--out", "out", "-m", "mine.train", "--lr", "3"]) == 1
    told = capfd.readouterr().err
    assert "ValueError: of the script" in told
    assert told.index("train.py") == told.index('File "') + len(f'File "{package}/')
    assert (tmp_path / "out/index.html").is_file()
    assert command.main(["explore", "-m", "mine.no_such"]) == 1
    assert "Error: there is no module mine.no_such" in capfd.readouterr().err


def test_a_script_finds_its_file_from_another_folder_and_its_last_thread_is_waited_for(tmp_path, monkeypatch, capfd):
    (tmp_path / "mine.py").write_text(
        "import os, sys, threading, time, torch\n"
        "os.chdir('/')\n"
        "print(open(__file__).readline()[:6], sys.argv[0])\n"
        "def late(x): return x.sin()\n"
        "def begins(): time.sleep(0.3); torch.compile(late, backend='eager')(torch.ones(2))\n"
        "threading.Thread(target=begins).start()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert command.main(["explore", "--out", "out", "mine.py"]) == 0
    assert capfd.readouterr().out == "import mine.py\n"
    assert "<h2>late</h2>" in (tmp_path / "out/index.html").read_text()


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("sys.stderr = open(os.devnull, 'w'); sys.stderr.close()", 0),
        ("shutil.rmtree('out'); open('out', 'w').close()", 0),
        ("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", 0),
        ("raise KeyboardInterrupt", 130),
        ("class Own(BaseException): pass\nraise Own", 1),
    ],
)
def test_a_script_s_end_is_its_own_whatever_it_leaves_to_write_to(last, status, tmp_path, monkeypatch, capfd):
    (tmp_path / "mine.py").write_text(f"import os, shutil, sys, torch\n{last}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    assert command.main(["explore", "--out", "out", "mine.py"]) == status
    told = capfd.readouterr().err
    assert "command/explore.py" not in told
    assert ("Traceback" in told) == (status != 0)
    assert (tmp_path / "out/index.html").is_file() == ("rmtree" not in last)


def test_what_python_cannot_read_is_shown_as_python_shows_it(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text("x = (1,\n")
    assert command.main(["explore", "--out", str(tmp_path / "out"), str(script)]) == 1
    told = capfd.readouterr().err
    assert "SyntaxError" in told
    assert told.lstrip().startswith(f'File "{script}"')


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    assert command.main(["explore", "--out", str(script), str(script)]) == 1
    captured = capsys.readouterr()
    assert "Error: nothing can be written to" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["capture", "tiny_head"], ["what-if", "tiny_head", "fusion"]])
def test_no_model_is_compiled_for_a_folder_that_cannot_be_made(arguments, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert command.main([*arguments, "--out", str(tmp_path / "file")]) == 1
    assert "Error: nothing can be written to" in capsys.readouterr().err


def test_each_process_of_a_distributed_run_has_its_folder(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text("")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert command.main(["explore", "--out", str(tmp_path / "out"), str(script)]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rank_1"]


def test_a_capture_is_explained_and_compared(tiny, capsys):
    assert command.main(["annotate", str(tiny)]) == 0
    assert "softmax" in capsys.readouterr().out
    assert command.main(["diff", str(tiny), str(tiny), "--json"]) == 0
    assert '"same": true' in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_ends_a_command_in_silence(tiny):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        command_line = [sys.executable, "-m", "minicompile", "annotate", str(tiny)]
        done = subprocess.run(command_line, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (command.ENOUGH_SEEN, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explore", "no.py"], "Error: no.py does not exist"),
        (["annotate", "no.json"], "Error: no.json does not exist"),
        (["step", "no_model", "--at", "aten.add"], "Error: no model is called 'no_model'"),
        (["capture", "no.py:make"], "no.py"),
        (["explore", "."], "Error: . is a folder without a __main__.py"),
    ],
)
def test_what_is_not_there_is_refused_in_one_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(arguments) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", ["annotate", "diff"])
@pytest.mark.parametrize(
    ("content", "said"), [("{}", "is no capture: it has no"), ("null", "holds null"), ("[", "JSON")]
)
def test_what_is_no_capture_is_refused_in_one_sentence(name, content, said, tmp_path, capsys):
    (tmp_path / "a.json").write_text(content)
    assert command.main([name, *[str(tmp_path / "a.json")] * (1 + (name == "diff"))]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "minicompile capture" in error


def test_a_capture_with_other_things_in_it_is_blamed_and_a_bug_stays_a_bug(tiny, capsys):
    whole = json.loads(tiny.read_text())
    tiny.write_text(json.dumps({**whole, "graphs": [None]}))
    assert command.main(["annotate", str(tiny)]) == 1
    assert f"Error: {tiny}: graphs.0 cannot be None" in capsys.readouterr().err
    tiny.write_text(json.dumps(whole))
    with pytest.raises(ZeroDivisionError), captures(tiny):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\x00", "config.yaml"),
        (b"a: [", "config.yaml, line"),
        (b"models: 3", "config.yaml: models is 3; write a mapping"),
        (b"just words", "config.yaml: models is 'just words'"),
        (b"models: {mine: 3}", "config.yaml: models.mine is 3"),
        (b"models: {mine: {factory: make}}", "config.yaml: models.mine needs source"),
        (b"models: {mine: {source: a.py, facotry: make}}", "config.yaml: models.mine needs source, and takes dynamic"),
        (b"models:", "no model is called 'mine'"),
    ],
)
@pytest.mark.parametrize("name", ["capture", "step"])
def test_a_configuration_that_cannot_be_is_refused_in_one_sentence(
    name, content, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_bytes(content)
    assert command.main([name, "mine", *(["--at", "aten.add"] if name == "step" else [])]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_model_that_fails_by_itself_is_blamed_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("import torch\ndef make(): return torch.nn.Linear(3, 3), (torch.ones(2, 4),)\n")
    assert command.main(["capture", "mine.py:make"]) == 1
    said = capsys.readouterr().err.replace("addmm: ", "")  # which torch 2.15 begins with
    assert "Error: model mine fails without torch.compile too: RuntimeError: mat1 and mat2" in said


def test_a_command_takes_the_keys_of_a_model_that_the_workflow_takes():
    schema = read_schema("schemas/config.schema.yaml")["properties"]["models"]
    assert {*schema["additionalProperties"]["properties"]} == models.ENTRY
