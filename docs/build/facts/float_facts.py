"""The figures on floating point that the concept pages quote, computed from the formats and the lab's tolerances.

Only operations that IEEE 754 fixes to the last bit are used, so the figures are the same on every machine.
"""

import math

import numpy as np

from minikernel.proof.proof import COLS, REFERENCE_TOLERANCE, TOLERANCE

TERMS = max(COLS)  # columns of the longest row that the proof takes
OUTLIER = 75.3  # how far the proof's outlier stands above its row


def float_facts(equivalence: dict, vocabulary: int) -> dict:
    """Compute everything that the page on floating point quotes.

    Args:
        equivalence: the port's contract, with atol and rtol, from the configuration.
        vocabulary: words among which probability is shared out.
    """
    one, term = np.float32(1), np.float32(0.1)
    terms = np.full(TERMS, term)
    exact = math.fsum(terms.astype(np.float64))
    in_turn = float(np.add.accumulate(terms, dtype=np.float32)[-1])
    in_pairs = float(_pairwise(terms))
    evenly = 1 / vocabulary
    return {
        "epsilon": float(np.spacing(one)),
        "tiny": float(np.finfo(np.float32).tiny),
        "largest_exponent": math.log(float(np.finfo(np.float32).max)),
        "terms": TERMS,
        "in_turn_error": abs(in_turn - exact) / exact,
        "in_pairs_error": abs(in_pairs - exact) / exact,
        "outlier": OUTLIER,
        "outlier_spacing": round(float(np.spacing(np.float32(OUTLIER)) / np.spacing(one))),
        "outlier_rounding": float(np.spacing(np.float32(OUTLIER))) / 2,
        "vocabulary": vocabulary,
        "evenly": evenly,
        "atol": equivalence["atol"],
        "rtol": equivalence["rtol"],
        "atol_share": equivalence["atol"] / evenly,
        "zeros_pass": 1.1 * evenly,
        "tolerance": TOLERANCE,
        "reference_tolerance": REFERENCE_TOLERANCE["float32"],
    }


def _pairwise(terms: np.ndarray) -> np.float32:
    """Add neighbours level by level, so that an element is rounded log2(n) times instead of n times."""
    while len(terms) > 1:
        if len(terms) % 2:
            terms = np.append(terms, np.float32(0))
        terms = terms[0::2] + terms[1::2]
    return terms[0]
