"""A second reading of the pages that explain a compile: each sentence is judged by the compiler's texts alone.

`python tests/minicompile/second_reading.py` reads the pages of what is kept of the zoo; names choose models,
`--folder FOLDER` compiles the models of another folder now, and `--random SEED --models N` those of a new seed. It
prints a table of what was read, held, false and unread, and each false sentence with its cause. A sentence of a form
that has no rule, or that its rule cannot judge, is unread: it is never counted as right. `--keep SET` keeps the counts
under that name; `checker_table.py --page` and `python -m docs.build readme` then show them.
"""

import argparse
import importlib.util
import inspect
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from second.judge import Finding, Page
from second.kept import keep, row
from second.texts import GraphTexts

PANES = ("code", "aten", "ir_before", "ir_after")
TARGETS = ("cpu", "simulated")
ANY_TARGET = (*TARGETS, "cuda")  # which asks for a GPU


@dataclass
class Reading:
    """How many sentences were held, false and unread, of those that are told as facts and by notes, and the false."""

    counts: Counter = field(default_factory=Counter)
    false: list[tuple[str, Finding]] = field(default_factory=list)
    unread: Counter = field(default_factory=Counter)
    forms: Counter = field(default_factory=Counter)

    def add(self, page: str, findings: list[Finding]) -> None:
        """Count a page's."""
        for one in findings:
            told = "by notes" if one.sentence.noted else "as facts"
            self.counts[told, one.verdict] += 1
            if one.verdict == "false":
                self.false.append((page, one))
            elif one.verdict == "unread":
                self.unread[one.sentence.section, one.sentence.kind] += 1
                self.forms[one.sentence.section, _form(one.sentence.text)] += 1

    def table(self) -> str:
        """The counts, a row for what is told as fact and one for what is told by notes."""
        rows = ["| told | read | held | false | unread |", "| --- | --- | --- | --- | --- |"]
        for told in ("as facts", "by notes"):
            held, false, unread = (self.counts[told, verdict] for verdict in ("held", "false", "unread"))
            rows.append(f"| {told} | {held + false} | {held} | {false} | {unread} |")
        return "\n".join(rows)


def _form(text: str) -> str:
    """A sentence without its names and numbers."""
    return re.sub(r"`[^`]*`|\b\w*\d[\w.]*\b|\[[^\]]*\]", "_", text)


def read_page(page: str, texts: GraphTexts) -> list[Finding]:
    """What became of each sentence of a page."""
    return Page(page, texts).judged()


def read_capture(capture: dict, reading: Reading, name: str) -> None:
    """Read the page of each call of each kernel of a capture."""
    from minicompile.explain.annotation.annotate import annotate

    panes = {one["id"]: "\n".join(one["lines"]) for one in capture["panes"]}
    of_graphs = [
        GraphTexts(*(panes.get(graph["panes"].get(pane), "") for pane in PANES)) for graph in capture["graphs"]
    ]
    for graph, texts in zip(capture["graphs"], of_graphs, strict=True):
        texts.calls_of_all = sum(len(one.calls) for one in of_graphs) if all(one.ran for one in of_graphs) else None
        for call in graph["calls"]:
            if not call["extern"]:
                page = annotate(capture, kernel=call["id"])
                reading.add(f"{name} {call['id']} {call['kernel']}", read_page(page, texts))


def _kept(names: list[str], targets: list[str]) -> Iterator[tuple[str, str, dict]]:
    from zoo_models import NAMES, NEWEST, captured, path_of

    for name in names or NAMES:
        for target in targets:
            if path_of(name, target, NEWEST).exists():
                yield name, target, captured(name, target).capture


def _compiled(names: list[str], targets: list[str], folder: Path) -> Iterator[tuple[str, str, dict]]:
    from unittest import mock

    import torch
    from torch._inductor.async_compile import AsyncCompile

    from minicompile.lowering.capture import as_capture
    from minicompile.watching.model import watch_model

    verified = {"verify": True} if "verify" in inspect.signature(watch_model).parameters else {}
    for path in sorted(folder.glob("*.py")):
        if names and path.stem not in names:
            continue
        specification = importlib.util.spec_from_file_location(f"read_{path.stem}", path)
        module = importlib.util.module_from_spec(specification)
        sys.modules[specification.name] = module
        specification.loader.exec_module(module)
        for target in getattr(module, "TARGETS", targets):
            for train, make in ((False, "make"), (True, "make_train")):
                if target not in targets or not hasattr(module, make):
                    continue
                train = train or getattr(module, "TRAIN", False)
                torch._dynamo.reset()
                torch.manual_seed(0)
                try:
                    model, inputs = getattr(module, make)()
                    if target == "cuda":
                        model, inputs = (
                            model.cuda(),
                            torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cuda, inputs),
                        )
                    with mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None):
                        watched = watch_model(
                            model, inputs, target=target, train=train, name=path.stem, machine_code=False, **verified
                        )
                    yield f"{path.stem}{'.train' if make == 'make_train' else ''}", target, as_capture(watched)
                except Exception as error:  # a refusal is told, and the others are read
                    print(f"{path.stem} {target} {make}: refused: {str(error).splitlines()[0][:200]}", flush=True)


def main() -> int:
    """Read what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--keep", metavar="SET", help="keep the counts for the table of explained models")
    parser.add_argument("--target", action="append", choices=ANY_TARGET)
    parser.add_argument("--folder", type=Path, help="compile this folder's models")
    parser.add_argument("--random", type=int, metavar="SEED", help="compile random models of this seed")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--unread", type=int, metavar="N", default=0, help="the N commonest forms without a rule")
    asked = parser.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    targets, reading, count = asked.target or list(TARGETS), Reading(), 0
    of_targets: dict[str, tuple[Counter, list[dict]]] = defaultdict(lambda: (Counter(), []))
    with tempfile.TemporaryDirectory() as made:
        if asked.random is not None:
            from random_models import written

            written(asked.random, range(asked.models), Path(made))
            found = _compiled(asked.names, targets, Path(made))
        elif asked.folder:
            found = _compiled(asked.names, targets, asked.folder)
        else:
            found = _kept(asked.names, targets)
        for name, target, capture in found:
            count, before, counts = count + 1, len(reading.false), reading.counts.copy()
            read_capture(capture, reading, f"{name} {target}")
            of_targets[target][0].update(reading.counts - counts)
            of_targets[target][1].append({"graphs": capture["graphs"], "environment": capture["environment"]})
            for page, one in reading.false[before:]:
                print(f"{page}\n    {one.sentence.text[:300]}\n    FALSE: {one.cause}", flush=True)
    if asked.keep:
        seed = "" if asked.random is None else f", seed {asked.random}"
        keep(asked.keep + seed, {target: row(*found) for target, found in of_targets.items()})
    print(f"{count} captures\n{reading.table()}")
    print("unread, by section and kind:", dict(reading.unread.most_common()))
    for (section, form), times in reading.forms.most_common(asked.unread):
        print(f"{times:6} {section:3} {form[:200]}")
    return bool(reading.false)


if __name__ == "__main__":
    sys.exit(main())
