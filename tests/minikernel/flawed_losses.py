"""An honest linear and cross-entropy of the tests' own, and the same with a flaw that has been seen in public."""

import torch
from torch import Tensor

FLAWS = {
    # flaw: the case on which it must show, and its dtype
    "subtracted_after_rounding": ("offset", "bfloat16"),
    "rounded_before_one_is_taken": ("sure", "bfloat16"),
    "same_gradient_for_each_token": ("per_token", "float32"),
    "overwritten": ("twice", "float32"),
    "mean_of_means": ("some_ignored", "float32"),
    "rounded_after_each_chunk": ("some_ignored", "bfloat16"),
    "small_entries_dropped": ("flat", "bfloat16"),
    "last_words_forgotten": ("odd_v", "float32"),
    "ignored_ones_counted": ("some_ignored", "float32"),
    "no_smoothing": ("smoothing", "float32"),
    "bias_forgotten": ("bias", "float32"),
    "factor_forgotten": ("factor", "float32"),
    "last_tokens_forgotten": ("odd_m", "float32"),
    "ignored_where_negative": ("ignored_class", "float32"),
    "ignored_ones_smoothed": ("ignored_smoothed", "float32"),
    "ignored_ones_in_the_gradient": ("ignored_per_token", "float32"),
    "states_need_the_weights_gradient": ("states_alone", "float32"),
    "weight_needs_the_states_gradient": ("weight_alone", "float32"),
    "gradient_for_a_loss": ("forward", "float32"),
    "z_before_the_softcap": ("together", "float32"),
    "width_cut_to_64s": ("width", "float32"),
    "softcap_not_differentiated": ("softcap", "float32"),
}
CHUNK = 5
NEEDS = {"weight_needs_the_states_gradient": 0, "states_need_the_weights_gradient": 1}  # flaw: the input


class Honest(torch.autograd.Function):
    """Logits in float32; their gradients rounded to the dtype, multiplied in float32, and rounded once."""

    @staticmethod
    def forward(ctx, h: Tensor, weight: Tensor, target: Tensor, options: dict, flaw: str) -> Tensor:
        cap, smooth, z = options.get("softcap"), options.get("label_smoothing", 0.0), options.get("z_loss", 0.0)
        raw = h.float() @ weight.float().T
        if flaw == "width_cut_to_64s":
            width = h.shape[1] // 64 * 64
            raw = h[:, :width].float() @ weight[:, :width].float().T
        if options.get("bias") is not None and flaw != "bias_forgotten":
            raw = raw + options["bias"].float()
        logits = raw if cap is None else cap * torch.tanh(raw / cap)
        if flaw == "last_words_forgotten":
            logits[:, len(weight) // 8 * 8 :] = -torch.inf
        if flaw == "no_smoothing":
            smooth = 0.0
        counted = target != options.get("ignore_index", -100)
        if flaw == "ignored_where_negative":
            counted = target >= 0
        if flaw == "last_tokens_forgotten":
            counted &= torch.arange(len(target)) < len(target) // 8 * 8
        at = target.clamp_min(0)[:, None]
        lse, own = torch.logsumexp(logits, -1, keepdim=True), logits.gather(-1, at)
        if flaw == "subtracted_after_rounding":
            lse, own = lse.to(h.dtype).float(), own.to(h.dtype).float()
        loss = lse - (1 - smooth) * own - smooth * logits.mean(-1, keepdim=True) + z * lse.square()
        if flaw == "z_before_the_softcap":
            loss = loss + z * (torch.logsumexp(raw, -1, keepdim=True).square() - lse.square())
        if flaw == "gradient_for_a_loss" and not any(ctx.needs_input_grad):
            loss = torch.zeros_like(loss)
        p = torch.softmax(logits, -1)
        if flaw == "rounded_before_one_is_taken":
            p = p.to(h.dtype).float()
        dz = p * (1 + 2 * z * lse) - smooth / len(weight)
        dz.scatter_add_(-1, at, torch.full_like(own, smooth - 1))
        if cap is not None and flaw != "softcap_not_differentiated":
            dz = dz * (1 - (logits / cap).square())
        if flaw == "small_entries_dropped":
            dz[dz.abs() < 2**-12] = 0
        weights = options.get("class_weight")
        share = counted.float() if weights is None else weights.float()[at[:, 0]] * counted
        reduction = options.get("reduction", "mean")
        divisor = share.sum() if reduction == "mean" else torch.ones(())
        if flaw == "ignored_ones_counted" and reduction == "mean":
            divisor = torch.tensor(float(len(target)))
        if flaw == "mean_of_means":
            half = len(h) // 2
            sizes = torch.tensor([float(counted[:half].sum()), float(counted[half:].sum())])
            share = share / torch.repeat_interleave(2 * sizes, torch.tensor([half, len(h) - half]))
            divisor = torch.ones(())
        # the losses are kept in float32 until they are added up
        losses = loss[:, 0] * share
        if flaw == "ignored_ones_smoothed":
            losses = losses - (1 - share) * smooth * logits.mean(-1)
        if flaw == "ignored_ones_in_the_gradient":
            share = torch.ones_like(share)
        ctx.save_for_backward(h, weight, dz * share[:, None] / divisor)
        ctx.flaw, ctx.each = flaw, reduction == "none"
        return (losses if reduction == "none" else losses.sum() / divisor).to(h.dtype)

    @staticmethod
    def backward(ctx, upstream: Tensor):
        h, weight, dz = ctx.saved_tensors
        upstream = upstream.float() if ctx.flaw != "factor_forgotten" else torch.ones_like(upstream)
        if ctx.flaw in NEEDS and not ctx.needs_input_grad[NEEDS[ctx.flaw]]:
            return torch.zeros_like(h), torch.zeros_like(weight), None, None, None
        if ctx.each:
            upstream = upstream.mean() if ctx.flaw == "same_gradient_for_each_token" else upstream[:, None]
        scaled = (dz * upstream).to(h.dtype).float()
        if ctx.flaw == "overwritten":
            dz.data.mul_(0.5)
        dw = scaled.T @ h.float()
        if ctx.flaw == "rounded_after_each_chunk":
            dw = torch.zeros_like(weight)
            for start in range(0, len(h), CHUNK):
                rows = slice(start, start + CHUNK)
                dw += (scaled[rows].T @ h[rows].float()).to(h.dtype)
        return (scaled @ weight.float()).to(h.dtype), dw.to(weight.dtype), None, None, None


def honest(h: Tensor, weight: Tensor, target: Tensor, *, flaw: str = "", **options) -> Tensor:
    return Honest.apply(h, weight, target, options, flaw)
