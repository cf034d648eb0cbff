"""The parts of a capture as plain files, under the names that people who dump torch.compile by hand expect."""

from pathlib import Path

from minicompile.explain.annotation.choice import most_interesting
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Capture
from minilab.files import write_text

NO_KERNEL = "torch.compile generated no kernel for this model: every call goes to a library."
TEXTS = {
    "fx_graph": "dynamo",
    "post_grad": "aten",
    "ir_pre_fusion": "ir_before",
    "ir_post_fusion": "ir_after",
    "output_code": "code",
}


def text_of(capture: Capture, kind: str) -> str:
    """All panes of a kind, one below the other; with more than one, each under its title."""
    panes, wording = [pane for pane in capture["panes"] if pane["kind"] == kind], Wording()
    texts = ["\n".join(pane["lines"]).rstrip() + "\n" for pane in panes]
    if len(panes) == 1:
        return texts[0]
    titles = [f"# {wording.title(pane['title'])} ({pane['id']})\n" for pane in panes]
    return "\n\n".join(title + text for title, text in zip(titles, texts, strict=True))


def interesting_kernel(capture: Capture) -> str:
    """The text of the kernel whose fused group holds the softmax's reduction, or of the one most worth reading."""
    view = most_interesting(capture)
    comment = "//" if capture["target"]["kind"] == "cpu" else "#"
    if view is None:
        return f"{comment} {NO_KERNEL}\n"
    header = f"{comment} {view.kernel['name']}: {capture['model']['name']}, {Wording().label(capture)}"
    return "\n".join([header, *(text for _, text in view.lines)]) + "\n"


def write_plain_files(capture: Capture, paths: dict[str, str | Path]) -> None:
    """Write the texts of a capture, made here or brought back from the record.

    Args:
        capture: the data of its capture.json.
        paths: a path for each of `TEXTS` and for `kernel`.
    """
    for name, kind in TEXTS.items():
        write_text(paths[name], text_of(capture, kind))
    write_text(paths["kernel"], interesting_kernel(capture))
