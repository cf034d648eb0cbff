"""The part of the configuration that each artefact depends on, as a function of the configuration and the wildcards."""

from collections.abc import Callable, Mapping

from minilab.device import is_cpu

TUNED_KERNEL, CUDA_RIVAL = "triton", "fused"  # autotune says which of the two is faster where
CPP_THREADS = 2  # that Inductor's C++ is written for
MINIGPT = ("minigpt", "minigpt_train", "minigpt_swapped")  # the trained model in its forms

Config = dict
Wildcards = Mapping[str, str]
Params = Callable[[Config, Wildcards], dict]


def kind_of(device: str) -> str:
    """The kind of hardware behind a slug, as the configuration names it: cpu or cuda."""
    return "cpu" if is_cpu(device) else "cuda"


def in_order(value: object) -> object:
    """The same plain data with sorted keys, sets as sorted lists: Snakemake takes another order for a change."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    if isinstance(value, set | frozenset):
        return sorted(map(in_order, value), key=repr)
    return [in_order(item) for item in value] if isinstance(value, list) else value


def nothing(config: Config, at: Wildcards) -> dict:
    """No parameter at all."""
    return {}


def bench(config: Config, at: Wildcards) -> dict:
    """How one kernel is timed."""
    bench, kernel = config["bench"], at["kernel"]
    # The entry counts as well: another function under the same name is another kernel.
    timing = {"dtype": bench["dtype"], "seed": bench["seed"], **bench[kind_of(at["device"])]}
    return {**timing, "kernel": kernel, "entry": config["kernels"].get(kernel)}


def allocation(config: Config, at: Wildcards) -> dict:
    """The shape at which a CPU's allocation is timed: that of its roofline."""
    return {"shape": config["roofline"]["headline"][kind_of(at["device"])]}


def autotune(config: Config, at: Wildcards) -> dict:
    """What is tuned, and how long."""
    return {"kernel": TUNED_KERNEL, "entry": config["kernels"].get(TUNED_KERNEL), **config["autotune"]}


def kernel_swap(config: Config, at: Wildcards) -> dict:
    """The prompt, and the kernel that is swapped in."""
    swap = config["swap_kernel"]
    return {"prompt": config["demo_prompt"], "kernel": swap, "entry": config["kernels"][swap]}


def distributed(config: Config, at: Wildcards) -> dict:
    """What is trained on how many ranks, for one kind of device."""
    distributed = config["distributed"]
    # the other kind's settings are left out: another number of CPU ranks makes no GPU record stale
    common = {name: value for name, value in distributed.items() if name not in ("cpu", "cuda")}
    return {**common, **distributed[kind_of(at["device"])]}


def capture(config: Config, at: Wildcards) -> dict:
    """What a model is compiled with."""
    model = at["model"]
    # a user's model of that name is the user's, whatever the lab's sizes are
    sizes = config["model"] if model in MINIGPT and model not in config["models"] else None
    shape = config["capture"]["shape"]
    return {"entry": config["models"].get(model), "shape": shape, "threads": CPP_THREADS, "model": sizes}


def compile_health(config: Config, at: Wildcards) -> dict:
    """What a model's compile is checked with."""
    made = capture(config, at)
    return {"compile": config["compile"], **{name: made[name] for name in ("entry", "shape", "model")}}


def profile(config: Config, at: Wildcards) -> dict:
    """What of a model's profile is timed, for one kind of device."""
    profile, model, kind = config["profile"], at["model"], kind_of(at["device"])
    entry = config["models"].get(model)
    # a user's model brings its own example inputs, and no shapes of the configuration apply
    own = {"shape": None, "modes": profile["modes"][kind], "kernels": True, "attention": []}
    return {
        "calls": profile["calls"],
        "samples": profile["samples"],
        "largest_difference": profile["largest_difference"].get(model),
        "cases": [own] if entry else _cases(config, model, kind),
        "compile": config["compile"],
        "entry": entry,
    }


def _cases(config: Config, model: str, kind: str) -> list[dict]:
    """What the configuration has of a model of the lab's, each of MiniGPT's shapes within its positions."""
    cases = config["profile"][kind][model]
    if model not in MINIGPT:
        return cases
    cut = {tuple(within([case["shape"]], config)[0]): case for case in reversed(cases)}  # of two alike, the first
    return [{**case, "shape": list(shape)} for shape, case in reversed(cut.items())]


def within(shapes: list[list[int]], config: Config) -> list[list[int]]:
    """[sequences, tokens] of each shape, cut to as many tokens as MiniGPT has positions; each shape once."""
    cut = ((sequences, min(tokens, config["model"]["block_size"])) for sequences, tokens in shapes)
    return [list(shape) for shape in dict.fromkeys(cut)]


def port_training(config: Config, at: Wildcards) -> dict:
    """What the port is trained with."""
    asked = config["port_training"]
    own = {"steps": asked["steps"][kind_of(at["device"])], "loss": asked["loss"], "compile": config["compile"]}
    return {**{section: config[section] for section in ("model", "corpus", "training")}, **own}


def model_contest(config: Config, at: Wildcards) -> dict:
    """How the whole model is timed, on no more tokens than it has positions, and what it was trained with."""
    contract = {name: config["equivalence"][name] for name in ("atol", "rtol")}
    made_of = {section: config[section] for section in ("model", "corpus", "training")}
    asked, longest = config["model_contest"], config["model"]["block_size"]
    # A text ends where the model's positions do, and at least one token is written.
    given = min(asked["generate"]["given"], longest - 1)
    texts = {**asked["generate"], "given": given, "new_tokens": min(asked["generate"]["new_tokens"], longest - given)}
    # shapes that become one when they are cut to the model's positions are measured once
    shapes = {name: within(asked[name], config) for name in ("shapes", "timelines")}
    return {**asked, **shapes, "generate": texts, "contract": contract, **made_of}


def training_contest(config: Config, at: Wildcards) -> dict:
    """How the training in one launch is timed, and what is trained."""
    return {**config["training_contest"], **{name: config[name] for name in ("model", "corpus", "training")}}


def loss(config: Config, at: Wildcards) -> dict:
    """How linear and cross-entropy are timed, for one kind of device."""
    return {"seed": config["loss"]["seed"], **config["loss"][kind_of(at["device"])]}


def loss_correctness(config: Config, at: Wildcards) -> dict:
    """With what everybody's loss is held against float64."""
    return {"seed": config["loss"]["seed"], "compile_seconds": config["loss"][kind_of(at["device"])]["compile_seconds"]}


def section(name: str) -> Params:
    """One section of the configuration, its keys as parameters."""
    return lambda config, at: config[name]


def sections(*names: str) -> Params:
    """Sections of the configuration, each a parameter."""
    return lambda config, at: {name: config[name] for name in names}
