"""A head's loss with its gradients: `python benchmarks/linear_cross_entropy.py [--shape M,D,V ...] [--dtype DTYPE]`.

The lab's `minikernel.linear_cross_entropy` against eager, `torch.compile`, torch's own chunked function and each peer
that is installed (Liger, quack, CCE), in turn in one process: milliseconds, the peak of memory above inputs and
gradients, whether the result is right, and how many times as fast as the best of the others the lab is. Shapes are
those of config.yaml's section `loss` for this kind of device. `--target RATIO` exits with 1 where the lab reaches less.
"""

import argparse
import sys
from pathlib import Path

import torch
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from minikernel.measure.loss.contest import BOTH, run_contest  # noqa: E402
from minikernel.proof.loss.contenders import LAB  # noqa: E402
from minikernel.reasons import in_words  # noqa: E402


def shape(text: str) -> list[int]:
    """M,D,V as numbers."""
    sizes = [int(size) for size in text.split(",")]
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not tokens,width,words")
    return sizes


def lines(rows: list[dict]) -> tuple[list[str], float | None]:
    """What is printed of one place, and how many times as fast as the best of the others the lab is; None: unknown."""
    able = sorted((row for row in rows if row["refused"] is None), key=lambda row: row["median_us"])
    said = []
    for row in able:
        memory = "     ?" if row["peak_mib"] is None else f"{row['peak_mib']:9,.1f}"
        error = f"{row['verdict']}" + (f" ({row['of']} {row['error']:.1e})" if row["error"] is not None else "")
        said.append(f"  {row['who']:13s} {row['median_us'] / 1e3:12,.3f} ms {memory} MiB  {error}")
    said += [f"  {row['who']:13s} left out: {in_words(row['refused'])}" for row in rows if row["refused"]]
    times = {row["who"]: row["median_us"] for row in able}
    others = [us for who, us in times.items() if who != LAB]
    if LAB not in times or not others:
        return said, None
    ratio = min(others) / times[LAB]
    noise = able[0]["noise_floor"]
    peer = next(row["who"] for row in able if row["who"] != LAB)
    return [*said, f"  lab is {ratio:.2f} times as fast as {peer}, the best of the others (noise {noise:.1%})"], ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--shape", type=shape, nargs="+", help="tokens,width,words")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="of the shapes given")
    parser.add_argument("--target", type=float, help="the least ratio to the best of the others")
    options = parser.parse_args()
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    params = yaml.safe_load((ROOT / "config.yaml").read_text())["loss"]
    params = {"seed": params["seed"], **params[kind]}
    if options.shape or options.dtype:
        dtype = options.dtype or next(iter(params["shapes"]))
        params["shapes"] = {dtype: options.shape or params["shapes"].get(dtype, next(iter(params["shapes"].values())))}
    made, reached = run_contest(params, kind, lambda line: None), []
    places: dict[tuple, list[dict]] = {}
    for row in made["rows"]:
        if row["direction"] == BOTH:
            places.setdefault((row["m"], row["d"], row["v"], row["dtype"]), []).append(row)
    for (m, d, v, dtype), rows in places.items():
        print(f"{m:,} tokens x {d:,} x {v:,} words, {dtype}, loss and gradients")
        said, ratio = lines(rows)
        print("\n".join(said))
        reached.append(ratio)
    missed = options.target is not None and any(ratio is None or ratio < options.target for ratio in reached)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
