"""The configurations of the Triton kernels: which are worth trying, which to take untried, how each is launched.

A configuration is {"BLOCK": columns of a tile, "ROWS": rows a program, "num_warps"}. What follows from it and
from the row's length, tiles held at once and registers a thread, is computed here too; the numbers of
registers are those with which the compiler does not spill, and what pays was measured on an H200.
"""

import triton

# The grid that the lab searches; `candidates` adds what goes beyond it.
LAB_BLOCKS, LAB_WARPS = (256, 512, 1024, 2048), (2, 4, 8)
# A multiprocessor's 65,536 registers are 2,048 for each thread of a warp; a program needs some besides its rows.
REGISTERS, REGISTERS_BESIDES = 2048, 28
MOST_REGISTERS = 255  # a thread can have
MOST_HELD, MOST_TILES = 128, 32  # registers a thread and tiles that hold a row
LOOPED_VALUES = 16  # values a thread loads at once of a row that does not fit
PACKED_COLS = 8192  # rows of 16-bit elements longer than this are held two elements a register


def registers_held(cols: int, config: dict[str, int], itemsize: int, tensors: int = 1) -> float:
    """Registers of each thread in which a program keeps its rows; the arguments are those of `specialization`."""
    # lanes beyond the row's end take registers as well
    columns = triton.cdiv(cols, config["BLOCK"]) * config["BLOCK"] * config["ROWS"]
    bytes_a_column = tensors * (itemsize if cols > PACKED_COLS else 4)
    return columns * bytes_a_column / (4 * 32 * config["num_warps"])


def fits(cols: int, config: dict[str, int], itemsize: int, tensors: int = 1) -> bool:
    """Whether rows stay in registers; the arguments are those of `specialization`."""
    # A program of w warps has 2,048 / w registers a thread at most, if it is to be alone on its multiprocessor.
    limit = min(MOST_HELD, REGISTERS // config["num_warps"] - REGISTERS_BESIDES)
    tiles = triton.cdiv(cols, config["BLOCK"])
    return tiles <= MOST_TILES and registers_held(cols, config, itemsize, tensors) <= limit


def specialization(cols: int, config: dict[str, int], itemsize: int, tensors: int = 1) -> dict[str, int | None]:
    """The keywords with which one configuration is launched.

    Args:
        cols: row length.
        config: {"BLOCK", "ROWS", "num_warps"}.
        itemsize: bytes of an element, 2 or 4.
        tensors: how many a program reads; 1 forward, 2 backward.

    Returns:
        `config` with TILES, loaded at once, and maxnreg, the registers a thread may use or None for the
        compiler's choice. From eight warps on they are as few as let as many programs share a
        multiprocessor as it has room for their rows, so that one computes while another loads.
    """
    warps = config["num_warps"]
    if not fits(cols, config, itemsize, tensors):
        # A row that does not fit is looped over, with enough loads in flight at a time to hide the memory's latency.
        tiles = max(1, LOOPED_VALUES * 32 * warps // (config["BLOCK"] * config["ROWS"]))
        return {**config, "TILES": tiles, "maxnreg": None}
    maxnreg = None
    if warps >= 8:
        # The float32 exponential would spill with less than 128 registers.
        needed = max(registers_held(cols, config, itemsize, tensors) + REGISTERS_BESIDES, 64 if itemsize == 2 else 128)
        # fewer registers a thread let one more program in; beyond that they only spill
        programs = max(1, int(REGISTERS // warps / needed))
        maxnreg = min(REGISTERS // warps // programs // 8 * 8, MOST_REGISTERS)
    return {**config, "TILES": triton.cdiv(cols, config["BLOCK"]), "maxnreg": maxnreg}


def worth_trying(cols: int, config: dict[str, int]) -> bool:
    """Whether a configuration beyond the lab's grid suits rows of `cols` in some dtype."""
    # Wider tiles than the row are idle lanes; rows of several are for few warps, as many warps share one row.
    several = config["ROWS"] > 1
    if config["BLOCK"] > max(16, triton.next_power_of_2(cols)) or (several and config["num_warps"] > 4):
        return False
    if fits(cols, config, itemsize=2):
        # Below 8 values a thread there is too little in flight; several rows beyond 48 crowd the registers.
        values = registers_held(cols, config, itemsize=4)
        return values <= 48 if several else values >= 8
    return config["num_warps"] >= 16 and cols > PACKED_COLS


def candidates(rows: int, cols: int) -> list[dict[str, int]]:
    """The configurations worth trying for (rows, cols): the lab's grid, then what goes beyond it.

    The grid is BLOCK in {256, 512, 1024, 2048} times num_warps in {2, 4, 8}, one row a program. Beyond:
    tiles of 4 to 16 values a thread, several rows a program where they are short, any number of warps
    that keeps the rows in registers; for rows that none does, loops of many warps.
    """
    configs = [{"BLOCK": block, "ROWS": 1, "num_warps": warps} for block in LAB_BLOCKS for warps in LAB_WARPS]
    for warps in (1, 2, 4, 8, 16, 32):
        for tile_rows, values in ((1, 4), (1, 8), (1, 16), (2, 8), (2, 16), (4, 8), (8, 8), (16, 8), (32, 8)):
            config = {"BLOCK": 32 * warps * values // tile_rows, "ROWS": tile_rows, "num_warps": warps}
            if tile_rows <= rows and worth_trying(cols, config) and config not in configs:
                configs.append(config)
    return configs


def in_lab_grid(config: dict[str, int]) -> bool:
    """Whether a configuration is one of the lab's BLOCK x num_warps."""
    return config["ROWS"] == 1 and config["BLOCK"] in LAB_BLOCKS and config["num_warps"] in LAB_WARPS


def default_config(cols: int, itemsize: int = 4, tensors: int = 1) -> dict[str, int]:
    """A configuration for rows of `cols` that nobody tuned; as it stands, good in any dtype.

    Two warps take two rows of up to 1,024 columns, more of shorter ones; then four and eight warps take a
    row, and sixteen one that eight could not hold (half of it where two tensors are read, as it was faster on
    an H200); thirty-two loop over what is longer.
    """
    if cols <= 1024:
        width = max(16, triton.next_power_of_2(cols))
        return {"BLOCK": min(width, 256), "ROWS": max(2, 1024 // width), "num_warps": 2}
    if cols <= 2048:
        return {"BLOCK": 1024, "ROWS": 1, "num_warps": 4}
    for warps in (8, 16):
        config = {"BLOCK": 2048, "ROWS": 1, "num_warps": warps}
        crowded = warps == 8 and registers_held(cols, config, itemsize, tensors) > MOST_HELD // tensors
        if fits(cols, config, itemsize, tensors) and not crowded:
            return config
    return {"BLOCK": 4096, "ROWS": 1, "num_warps": 32}
