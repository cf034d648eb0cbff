"""What a line of a kernel may look like that computes an ATen operation; several signs, any of which will do.

An operation that is not here is not judged. A sign is a pattern of the line's text, C++ or Triton.
"""

import re
from collections.abc import Iterable

ADDED = r" \+ | \| | \|\| |\+=|\bfn?ma\w*\(|fmadd|fmsub|sum\w*\(|welford\w*\(| - -?\d"
TIMES = r" \* |\bfn?ma\w*\(|fmadd|fmsub| & | && |\*="
DIVIDED = r" / |//| \* |reciprocal|div\w*\(|>>"
LARGEST = r"max\w*\(|max\w*<| > |\bclamp|relu|fmax"
LEAST = r"min\w*\(|min\w*<| < |\bclamp|fmin"
CHOSEN = r"where\(|blendv|\?| if |masked"
SET_BY_INDEX = r"atomic_\w+|(?:store\(\w+ \+ .*?tmp)|\w+ptr\d*\[.*?tmp.*?\] = |\.store\(\w+ \+ .*?tmp|" + CHOSEN
BY_INDEX = r"load\w*\(\w+ \+ .*?tmp|ptr\d*\[.*?tmp|" + CHOSEN
EXPONENTIAL = r"exp"
SIGNS = {
    "add": ADDED,
    "sub": r"isnan.*isinf.*\* 0|nan.*inf.*\* 0| - |\bfn?ma\w*\(|fmadd|fmsub| \+ -|\(-1L?\)\*|\^",
    "rsub": r" - |\bfn?ma\w*\(| \+ ",
    "mul": TIMES,
    "div": DIVIDED,
    "neg": r"[=(]\s*-\s?\(?tmp|\.neg\(| - |\(-",
    "exp": EXPONENTIAL,
    "exp2": r"exp2|exp",
    "expm1": r"expm1|\.exp\(\) - ",
    "log": r"log(?!i)",
    "log2": r"log2",
    "log10": r"log10",
    "log1p": r"log1p",
    "sqrt": r"sqrt",
    "rsqrt": r"rsqrt|sqrt",
    "tanh": r"tanh",
    "sin": r"\bsin|\.sin",
    "cos": r"\bcos|\.cos",
    "tan": r"\btan\(|\.tan\(",
    "atan": r"atan",
    "erf": r"erf",
    "sigmoid": r"sigmoid|exp|decltype\(\w+\)\(1\)",
    "relu": LARGEST,
    "abs": r"abs\(|abs<|where\(",  # of integers
    "floor": r"floor",
    "ceil": r"ceil",
    "round": r"round|nearbyint|rint",
    "trunc": r"trunc",
    "maximum": LARGEST,
    "minimum": LEAST,
    "clamp_min": LARGEST,
    "clamp_max": LEAST,
    "clamp": LARGEST + "|" + LEAST,
    "amax": LARGEST + r"|\|",
    "amin": LEAST + "|&",
    "argmax": r"max|argmax|IndexValue|" + CHOSEN,  # a row of a few elements is compared one by one
    "argmin": r"min|argmin|IndexValue|" + CHOSEN,
    "where": CHOSEN,
    "eq": r"==",
    "ne": r"!=|~|\^",
    "lt": r" < | > ",
    "le": r" <= ",
    "gt": r" > | < ",  # 0 < x is x > 0
    "ge": r" >= ",
    "logical_not": r"~|= !|== 0|not",
    "logical_and": r"&",
    "logical_or": r"\|",
    "bitwise_not": r"~|!|== 0",
    "bitwise_and": r"&",
    "bitwise_or": r"\|",
    "bitwise_xor": r"\^",
    "sum": r"sum\w*\(|welford| \+ |\+=|tl\.reduce|vec_reduce",
    "mean": r"sum\w*\(|welford| \+ |/",
    "var_mean": r"welford|sum\w*\(| \+ | / ",
    "prod": r"prod|reduce| \* ",
    "any": r"any|\|",
    "pow": r"pow| \* |sqrt|/|reciprocal|libdevice",
    "cumsum": r"scan|_helper_fn|\+=|tmp_acc\w+ \+|cumsum",
    "cumprod": r"scan|tmp_acc\w+ \*",
    "sort": r"sort",
    "scatter": SET_BY_INDEX,
    "scatter_add": SET_BY_INDEX,
    "scatter_reduce": SET_BY_INDEX,
    "scatter_upon_const_tensor": SET_BY_INDEX,
    "index_put": SET_BY_INDEX,
    "index_put_": SET_BY_INDEX,
    "gather": BY_INDEX,
    "index": BY_INDEX + r"|load|\w+ptr\d*\[",
    "embedding": BY_INDEX + r"|load",
    "isnan": r"isnan|!=",
    "isinf": r"isinf|==",
    "sign": r" < | - |sign",
    "var": r"welford|sum\w*\(| \+ |/",
    "cat": CHOSEN + r"|load|store|tl\.full",
    "slice_scatter": CHOSEN + r"|load",
    "select_scatter": CHOSEN + r"|load",
    "constant_pad_nd": CHOSEN + r"|load|masked|tl\.full",
    "_unsafe_masked_index_put_accumulate": r"atomic|store",
    "triton_kernel_wrapper_mutation": r"(?!)",
    "triton_kernel_wrapper_functional": r"(?!)",
    "flex_attention": r"tl\.dot|gemm|flex",
}
# operations of several results, told by their parts
SEVERAL = {
    "var_mean": SIGNS["var_mean"],
    "max": LARGEST + "|" + CHOSEN,
    "min": LEAST + "|" + CHOSEN,
    "sort": r"sort",
    "cummax": r"scan",
    "cummin": r"scan",
    "prepare_softmax_online": r"exp|max|online|sum\w*\(| \+ ",
    "native_layer_norm": r"welford|sum\w*\(|sqrt| - | \* ",
    "topk": r"sort",
}
WORDS = {
    "maximum": "amax",
    "minimum": "amin",
    "maximum and its position": "max",
    "minimum and its position": "min",
    "position of the maximum": "argmax",
    "position of the minimum": "argmin",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negate": "neg",
    "exponential": "exp",
    "logarithm": "log",
    "product": "prod",
    "variance and mean": "var_mean",
    "reciprocal square root": "rsqrt",
    "square root": "sqrt",
    "power": "pow",
    "absolute value": "abs",
    "choose by a condition": "where",
    "look up rows of a table": "embedding",
    "running sum": "cumsum",
    "running product": "cumprod",
    "copy into an input": "copy_",
    "copy": "clone",
    "convert to another dtype": "convert_element_type",
    "fill with one value": "full",
}
MADE = {"full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "empty", "new_zeros", "new_full", "new_ones"}
MADE |= {
    "iota",
    "arange",
    "scalar_tensor",
    "eye",
    "clone",
    "copy_",
    "copy",
    "expand",
    "fill",
    "fill_",
    "constant_pad_nd",
}
MADE |= {"zeros_", "lift_fresh_copy", "new_empty", "_to_copy", "convert_element_type", "empty_strided", "rand", "randn"}
SCANS = {
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "sort",
    "argsort",
    "topk",
    "associative_scan",
    "msort",
}
# what a line does with values, told by its text; to each class, the operations that may bring it into a kernel
DOES = {
    "+": r"tmp\w+ \+ (?!tl\.)tmp|\bfma",
    "cos": r"\bcos\(|\.cos\(",
    "tanh": r"tanh",
    "exp": r"\bexp\w*\(|\.exp\w*\(",
    "log": r"\blog\w*\(|\.log\w*\(",
    "erf": r"erf",
    "sqrt": r"sqrt",
}
SIMPLE = set(SIGNS) - {"pow", "triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional", "flex_attention"}
SIMPLE -= {"var", "isnan", "isinf", "sign", "cat", "slice_scatter", "select_scatter", "constant_pad_nd"}
SIMPLE -= {"_unsafe_masked_index_put_accumulate"}
SIMPLE -= {"expm1", "log1p", "index", "scatter_reduce", "prod", "sort", "mean", "var_mean"}
SIMPLE |= {"clone", "copy_", "convert_element_type", "full"}
BRINGS = {
    "+": {
        "add",
        "sum",
        "rsub",
        "sub",
        "cumsum",
        "scatter_add",
        "index_put",
        "index_put_",
        "scatter",
        "gather",
        "embedding",
        "cumprod",
        "sigmoid",
        "argmax",
        "argmin",
        "mul",
        "floor",
        "scatter_upon_const_tensor",
    },
    "cos": {"cos"},
    "tanh": {"tanh"},
    "exp": {"exp", "exp2", "sigmoid", "tanh"},
    "log": {"log", "log2", "log10"},
    "erf": {"erf"},
    "sqrt": {"sqrt", "rsqrt"},
}


def operation_of(step: str) -> str:
    """The operation that a headline's words name."""
    step = step.strip()
    return step.strip("`") if step.startswith("`") else WORDS.get(step, step)


def may_be(base: str, text: str) -> bool:
    """Whether a line can be the one that computes an operation."""
    return bool(re.search(SIGNS[base], text))


def unnamed(lines: Iterable[str], named: set[str]) -> str | None:
    """A line that computes what none of the named operations can bring; none where one is not known well enough."""
    if not named <= SIMPLE:
        return None
    for text in lines:
        for what, sign in DOES.items():
            if re.search(sign, text) and not BRINGS[what] & named:
                return text.strip()
    return None
