"""The parts of a capture as plain files, under the names that people who dump torch.compile by hand expect."""

from pathlib import Path

import torch

from minicompile.explain.annotation.choice import most_interesting
from minilab import LabError
from minilab.files import replacing, write_text

NO_KERNEL = "torch.compile generated no kernel for this model: every call goes to a library."
TEXTS = {
    "fx_graph": "dynamo",
    "post_grad": "aten",
    "ir_pre_fusion": "ir_before",
    "ir_post_fusion": "ir_after",
    "output_code": "code",
}


def text_of(capture: dict, kind: str) -> str:
    """All panes of a kind, one below the other; with more than one, each under its title."""
    panes = [pane for pane in capture["panes"] if pane["kind"] == kind]
    texts = ["\n".join(pane["lines"]).rstrip() + "\n" for pane in panes]
    if len(panes) == 1:
        return texts[0]
    return "\n\n".join(f"# {pane['title']} ({pane['id']})\n{text}" for pane, text in zip(panes, texts, strict=True))


def interesting_kernel(capture: dict) -> str:
    """The text of the kernel whose fused group holds the softmax's reduction, or of the one most worth reading."""
    view = most_interesting(capture)
    comment = "//" if capture["target"]["kind"] == "cpu" else "#"
    if view is None:
        return f"{comment} {NO_KERNEL}\n"
    kernel = next(kernel for kernel in view.graph["kernels"] if kernel["name"] == view.call["kernel"])
    code = next(pane["lines"] for pane in capture["panes"] if pane["id"] == view.graph["panes"]["code"])
    header = f"{comment} {kernel['name']}: {capture['model']['name']}, {capture['target']['label']}\n"
    return header + "\n".join(code[kernel["first"] - 1 : kernel["last"]]) + "\n"


def write_plain_files(capture: dict, paths: dict[str, str | Path]) -> None:
    """Write the texts; `paths` has a path for each of `TEXTS` and for `kernel`."""
    for name, kind in TEXTS.items():
        write_text(paths[name], text_of(capture, kind))
    write_text(paths["kernel"], interesting_kernel(capture))


def write_exported(model: torch.nn.Module, inputs: tuple, path: str | Path) -> None:
    """Write the model as `torch.export` sees it.

    Raises:
        LabError: the model cannot be exported; the sentence carries torch's reason.
    """
    try:
        program = torch.export.export(model, inputs)
    except Exception as error:  # of many kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise LabError(
            f"torch.export cannot export {type(model).__name__} ({reason[0]}); rewrite what it names so that it traces "
            f"without graph breaks."
        ) from error
    with replacing(path) as temporary:
        torch.export.save(program, temporary)
