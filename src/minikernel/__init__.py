"""The lab's kernels: the softmax, the language-model head, MiniGPT as one kernel; proven, measured, shown.

It knows the model and computes it on a device. It does not know torch.compile, but as a rival.

from minikernel import softmax, kernels

softmax(x, dim=-1)        F.softmax by the best kernel for the tensor's device and dtype (minikernel.ops.operator)
kernels["fused"](x)       one kernel by name, over the last axis
linear_softmax(h, weight) the LM head, softmax(h weight^T + bias), in one kernel (minikernel.ops.lm_head)
minigpt_forward(m, ids)   MiniGPT's logits or probabilities, in one launch (minikernel.model.forward)
roofline({"mine": f})     this machine's limits and f beneath them, measured and drawn (minikernel.report.here)
linear_cross_entropy(h, weight, target)  the head that trains, without the logits in memory, and its gradients
LinearCrossEntropyLoss()  the same as a module (both minikernel.ops.linear_cross_entropy.operator)
generate(model, ids, n)   the n tokens after a prompt, in one launch (minikernel.model.generate.launch)
train(m, text, schedule)  MiniGPT trained in place, the whole schedule in one launch (minikernel.model.train.launch)
"""

import importlib

__all__ = [
    "LinearCrossEntropyLoss",
    "generate",
    "kernels",
    "linear_cross_entropy",
    "linear_softmax",
    "load_user_kernel",
    "minigpt_forward",
    "roofline",
    "softmax",
    "train",
]

# Imported when they are asked for, and named by strings: a job that uses one does not depend on the others.
HOMES = {
    "LinearCrossEntropyLoss": "minikernel.ops.linear_cross_entropy.operator",
    "generate": "minikernel.model.generate.launch",
    "kernels": "minikernel.ops.ladder.table",
    "linear_cross_entropy": "minikernel.ops.linear_cross_entropy.operator",
    "linear_softmax": "minikernel.ops.lm_head",
    "load_user_kernel": "minikernel.ops.registry",
    "minigpt_forward": "minikernel.model.forward",
    "roofline": "minikernel.report.here",
    "softmax": "minikernel.ops.operator.operator",
    "train": "minikernel.model.train.launch",
}


def __getattr__(name: str):
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(HOMES[name]), name)
    return value
