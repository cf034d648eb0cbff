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
    device: str,
) -> dict:
    """Break a call of the default mode down.

    Args:
        made_of: keyword arguments of `subject`, but for the device.
        options: `dynamic` and `options` to compile with.
        kernels: whether the call itself is broken down.
        attention: dtypes to compare attention in.
        samples: timed calls of each kind of measurement.

    Returns:
        `shapes`, a row if `kernels`, with `shape` and the call taken apart; and `attention`, a row for each dtype.

    Raises:
        NotProfiled: torch.compile made no graph of the model.
    """
    made = replace(subject(**made_of, device=device), **options)
    broken = break_down(made, samples) if kernels else None
    shapes = [] if broken is None else [{"shape": shape_of(made), **broken}]
    compared = [compare_attention(made, dtype, samples, broken) for dtype in attention]
    return {"shapes": shapes, "attention": compared}
