"""Python runs this at the start of each process that an explored one starts, before the process's own code.

It leaves a mark of the process, and has `explore` begun as soon as Dynamo is imported, without which nothing is
compiled: a process that compiles nothing pays for one small file. A sitecustomize of the user's own runs as ever.
"""

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
VARIABLE = "MINICOMPILE_EXPLORING"  # minicompile.unseen.processes writes it
DYNAMO = "torch._dynamo"
INDUCTOR, COMPILE_FX = "torch._inductor", "torch._inductor.compile_fx"
INDUCTORS_OWN = "torch/_inductor/"  # in the path of a script of Inductor's, which builds or times its kernels


class _Begins:
    """Finds a module, Dynamo first, as it would be found, and begins to watch once it is imported."""

    def __init__(self, awaited):
        self.awaited = awaited

    def find_spec(self, name, path=None, target=None):
        if name != self.awaited:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # torch 2.11 imports Dynamo in the middle of Inductor's package, from which nothing can be imported until later
        if module.__name__ == DYNAMO and _is_being_imported(INDUCTOR) and COMPILE_FX not in sys.modules:
            sys.meta_path.insert(0, _Begins(COMPILE_FX))
            return
        told = json.loads(os.environ[VARIABLE])
        mark = Path(told["run"]) / f"{os.getpid()}.json"
        if not mark.parent.is_dir():
            return
        mark.write_text('{"state": "unwatched"}')
        if told["prefix"] != sys.prefix:  # another installation of Python
            return
        sys.path.insert(0, told["source"])  # the lab that explores, whichever is installed
        try:
            exploring = importlib.import_module("minicompile.exploring")
        except Exception:  # a module of the user's may stand in the place of one that it imports
            return
        finally:
            sys.path.remove(told["source"])
        exploring.explore_started_process()


def _is_being_imported(name) -> bool:
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def _users_own() -> None:
    """Run the sitecustomize that this file stands in front of."""
    sys.path[:] = [folder for folder in sys.path if folder != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if VARIABLE in os.environ and not any(INDUCTORS_OWN in word and word.endswith(".py") for word in sys.orig_argv):
    told = json.loads(os.environ[VARIABLE])
    if Path(told["run"]).is_dir():
        (Path(told["run"]) / f"{os.getpid()}.json").write_text('{"state": "started"}')
        sys.meta_path.insert(0, _Begins(DYNAMO))
_users_own()
