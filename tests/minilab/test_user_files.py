"""What a user's code imports and opens is told by the process that runs it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

from minilab.user_files import NOTES, opened

RUN = "import sys\nfrom minilab.user_code import load_function\nload_function('kernel', 'mine', sys.argv[1], 'f')()\n"
WAYS = {
    "a package by its name": ("from mine.helpers import g\ndef f(): pass\n", {"mine/helpers.py"}),
    "the file beside it": ("import helpers\ndef f(): pass\n", {"mine/helpers.py"}),
    "dots": ("from .helpers import g\ndef f(): pass\n", {"mine/helpers.py"}),
    "importlib, in a call": (
        "import importlib\ndef f(): importlib.import_module('mine.impl.core')\n",
        {"mine/impl/__init__.py", "mine/impl/core.py", "mine/impl/other.py", "mine/impl/table.json"},
    ),
    "a path from the lab's folder": ("open('mine/tuned.json').read()\ndef f(): pass\n", {"mine/tuned.json"}),
    "its own path, in a call": (
        "from pathlib import Path\ndef f(): Path(__file__).with_suffix('.json').read_text()\n",
        {"mine/kernel.json"},
    ),
    "NumPy": ("import numpy\ndef f(): numpy.load('mine/table.npy')\n", {"mine/table.npy"}),
    "ctypes": (
        "import ctypes\ndef f():\n    try: ctypes.CDLL('mine/no_library.so')\n    except OSError: pass\n",
        {"mine/no_library.so"},
    ),
    "another program": (
        "import subprocess, sys\ndef f(): subprocess.run([sys.executable, 'mine/tool.py'], check=True)\n",
        {"mine/tool.py"},
    ),
    "a thread": (
        "import threading\ndef g(): open('mine/tuned.json').close()\n"
        "def f():\n    one = threading.Thread(target=g)\n    one.start()\n    one.join()\n",
        {"mine/tuned.json"},
    ),
    "a thread that calls nothing of the user's": (
        "from concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "def f():\n    with ThreadPoolExecutor() as pool: pool.submit(Path('mine/tuned.json').read_text).result()\n",
        {"mine/tuned.json"},
    ),
    "from another working directory": (
        "import os\ndef f():\n    os.chdir('mine')\n    open('tuned.json').close()\n",
        {"mine/tuned.json"},
    ),
    "its own folder": ("from pathlib import Path\ndef f(): list(Path(__file__).parent.glob('*.json'))\n", {"mine"}),
    "a link and what it leads to": (
        "def f(): open('mine/link/table.json').close()\n",
        {"mine/link/table.json", "mine/impl/table.json"},
    ),
    "an archive of modules, and a file run as one": (
        "import runpy, sys\nsys.path.insert(0, 'mine/all.zip')\n"
        "import packed\ndef f(): runpy.run_path('mine/tool.py')\n",
        {"mine/all.zip", "mine/tool.py"},
    ),
    "a folder": ("from pathlib import Path\ndef f(): list(Path('mine/impl').glob('*.json'))\n", {"mine/impl"}),
    "another place of the project": ("def f(): open('shared.txt').close()\n", {"shared.txt"}),
    "a file that is not there yet": (
        "def f():\n    try: open('mine/override.json')\n    except FileNotFoundError: pass\n",
        {"mine/override.json"},
    ),
    "what it makes itself": (
        "def f():\n    with open('mine/cache.txt', 'w') as file: file.write('1')\n    open('mine/cache.txt').close()\n",
        set(),
    ),
    "what is made of the project, or installed": (
        "import json, os\ndef f():\n    open('results/24.json').close()\n    open(json.__file__).close()\n"
        "    open('tmp/compiled').close()\n"
        "    open(os.devnull).close()\n    import minilab.archives\n",
        set(),
    ),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a user's folder; what lies beside his kernel is read by some."""
    root = tmp_path_factory.mktemp("project")
    for folder in ("mine/impl", "results", "tmp"):
        (root / folder).mkdir(parents=True)
    files = {
        "mine/helpers.py": "def g(): pass\n",
        "mine/impl/__init__.py": "",
        "mine/impl/core.py": "from . import other\n",
        "mine/impl/other.py": "from pathlib import Path\n(Path(__file__).parent / 'table.json').read_text()\n",
        "mine/tool.py": "",
        **dict.fromkeys(("mine/impl/table.json", "mine/tuned.json", "mine/kernel.json"), "1"),
        **dict.fromkeys(("mine/unread.json", "shared.txt", "results/24.json", "tmp/compiled"), "1"),
    }
    for name, text in files.items():
        (root / name).write_text(text)
    numpy.save(root / "mine/table.npy", numpy.ones(3))
    (root / "mine/link").symlink_to("impl")
    with zipfile.ZipFile(root / "mine/all.zip", "w") as archive:
        archive.writestr("packed.py", "")
    return root


@pytest.mark.parametrize("way", WAYS)
def test_what_is_imported_or_opened_is_known(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str):
    text, read = WAYS[way]
    (project / "mine/kernel.py").write_text(text)
    notes = tmp_path / "notes"
    notes.touch()
    environment = {**os.environ, NOTES: str(notes), "TMPDIR": str(project / "tmp")}
    subprocess.run([sys.executable, "-c", RUN, "mine/kernel.py"], cwd=project, env=environment, check=True)
    monkeypatch.chdir(project)
    assert set(opened(notes)) == read
