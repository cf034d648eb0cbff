"""Takes the compiled call of one shape apart, and compares attention there, in a process of its own."""

from dataclasses import replace

from minicompile.profile.attention import compare_attention
from minicompile.profile.breakdown import break_down
from minicompile.profile.subject import shape_of, subject


def taken_apart(
    made_of: dict,
    options: dict,
    kernels: bool,
    attention: list[str],
    samples: int,
    copy_gb_per_s: float,
    device: str,
) -> dict:
    """Break a call of the default mode down.

    Args:
        made_of: keyword arguments of `subject`, but for the device.
        options: `dynamic` and `options` to compile with.
        kernels: whether the call itself is broken down.
        attention: dtypes to compare attention in.
        samples: timed calls of each kind of measurement.
        copy_gb_per_s: bandwidth of a large copy on the device.

    Returns:
        `shapes`, a row if `kernels`, with `shape`, `split`, `kernels`, `rounds` and `busy`; and `attention`, a row for
        each dtype.

    Raises:
        NotProfiled: a kernel or library call could not be timed.
    """
    made = replace(subject(**made_of, device=device), **options)
    broken = break_down(made, samples) if kernels else None
    shapes = []
    if broken is not None:
        rows = broken.kernels(copy_gb_per_s)
        found = {"split": broken.split(), "kernels": rows, "rounds": broken.rounds, "busy": broken.busy}
        shapes.append({"shape": shape_of(made), **found})
    compared = [compare_attention(made, dtype, samples, broken) for dtype in attention]
    return {"shapes": shapes, "attention": compared}
