"""The public names of the package: all can be called, and none costs an import before it is asked for."""

import subprocess
import sys

import minicompile


def test_every_public_name_is_what_it_says():
    for name in minicompile.__all__:
        assert callable(getattr(minicompile, name)), name


def test_nothing_is_imported_before_it_is_asked_for():
    code = "import sys, minicompile; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
