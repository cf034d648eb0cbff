"""A confined process writes in its folder alone and reads nothing that is hidden from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minilab.sandbox.landlock import outside, version

TRIES = """
import json, os, signal, socket, subprocess, sys
from pathlib import Path
from minilab.sandbox.landlock import confine

folder, hidden, judge = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
server = socket.create_server(("127.0.0.1", 0))

def can(do):
    try:
        do()
        return True
    except OSError:
        return False

def tries():
    return {
        "write in its folder": can(lambda: (folder / "mine").write_text("")),
        "write beside it": can(lambda: (hidden / "mine").write_text("")),
        "remove": can(lambda: (hidden / "gone").unlink()),
        "read what is hidden": can(lambda: (hidden / "answer").read_text()),
        "list what is hidden": can(lambda: os.listdir(hidden)),
        "read what is beside it": can(lambda: (hidden.parent / "beside").read_text()),
        "connect": can(lambda: socket.create_connection(server.getsockname())),
        "signal": can(lambda: os.kill(judge, 0)),
        "start a program": can(lambda: subprocess.run(["true"], check=True)),
    }

before, confined = tries(), confine(folder, [hidden])
(print(json.dumps([confined, before, tries()])))
"""


@pytest.mark.skipif(not version(), reason="this kernel has no Landlock")
def test_it_writes_in_its_folder_and_reads_nothing_hidden(tmp_path: Path):
    folder, hidden = tmp_path / "its", tmp_path / "hidden"
    for each in (folder, hidden):
        each.mkdir()
    for name in ("gone", "answer"):
        (hidden / name).write_text(name)
    (tmp_path / "beside").write_text("")
    command = [sys.executable, "-c", TRIES, str(folder), str(hidden), str(os.getpid())]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    confined, before, after = json.loads(said)
    assert confined
    assert all(before.values())
    allowed = {"write in its folder", "read what is beside it", "start a program"}
    allowed |= {"connect"} if version() < 4 else set()
    allowed |= {"signal"} if version() < 6 else set()
    assert {name for name, could in after.items() if could} == allowed


def test_all_but_the_hidden_is_outside(tmp_path: Path):
    for name in ("class/ana", "class/bo", "notes", "lab/src"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("class")
    found = set(outside([tmp_path / "class"], tmp_path))
    assert found == {tmp_path / "notes", tmp_path / "lab"}
    assert list(outside([], tmp_path)) == [tmp_path]
