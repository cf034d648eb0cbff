"""Stage 25's pages and the phases' reports, each with its artefacts and what follows from them."""

import json
from functools import cache, partial
from itertools import pairwise, product
from statistics import median

import artefacts
import distributed_artefact
from numbers_of_a_page import Source
from recorded_pages import CPU, FRESH, GPU, Page, elsewhere, recorded

from minicompile.distributed.measure import patterns_on
from minicompile.report.gemv_report import report as gemv
from minicompile.report.phase_reports import checks_24, checks_25, phase_report
from minicompile.report.profile_report import report as profile_page
from minicompile.report.safety_report import safety_entries, safety_section
from minicompile.report.stage_25 import manifest_25, report_25
from minicompile.report.survey import survey
from minikernel.report.manifest import manifest_24
from minimodel.model_config import MiniGPTConfig


def gemv_page() -> Page:
    products = recorded("25/gemv.json")
    return Page(partial(gemv, products), [Source(products, derived=gemv_derived(products))])


def gemv_derived(made: dict) -> dict:
    rows = made["products"]
    read = {"cublas": lambda row: 2 if row["dtype"] == "int8" else 1, "max_autotune": lambda row: 1}
    verdicts = [
        (row["dtype"], side, "same" if abs(row["speedup"][side] - 1) < 0.01 else told)
        for row in rows
        for side, told in row["verdict"].items()
    ]
    return {
        "GB/s: bytes over time": [
            width(row) * row["weight_bytes"] / row["times_us"][side] / 1e3
            for row in rows
            for side, width in read.items()
        ],
        "less is told as equal": [0.01],
        "how often of a dtype": [verdicts.count(one) for one in set(verdicts)],
        "how often": [sum(one[1:] == told for one in verdicts) for told in {one[1:] for one in verdicts}],
        "shapes of a dtype": [sum(row["dtype"] == dtype for row in rows) for dtype in {row["dtype"] for row in rows}],
    }


def profile_of(model: str) -> Page:
    made = recorded(f"25/{model}/profile.json")
    return Page(partial(profile_page, made), [profile_source(made)], ("20 to 80 %", "20 a 80 %"))


def profile_source(made: dict) -> Source:
    return Source(made, names_of(made, made["model"]), profile_derived(made), in_tables=("speedup",))


def profile_derived(made: dict) -> dict:
    timings, splits = made["timings"], [shape["split"] for shape in made["shapes"]]
    kernels = [kernel for shape in made["shapes"] for kernel in shape["kernels"]]
    judged = {told: [row for row in timings if row["verdict"] == told] for told in ("faster", "slower")}
    saved = [(row, 1e-6 * (row["eager"]["median_us"] - row["compiled"]["median_us"])) for row in timings]
    sides = [(row["eager"]["peak_bytes"], row["compiled"]["peak_bytes"]) for row in timings]
    cores = [(row["explicit"], row["fused"]) for row in made["attention"]]
    return {
        "times as fast": [row["eager"]["median_us"] / row["compiled"]["median_us"] for row in judged["faster"]],
        "slower, times as long": [row["compiled"]["median_us"] / row["eager"]["median_us"] for row in judged["slower"]],
        "calls that pay back": [row["cold_compile_seconds"] / gain for row, gain in saved if gain > 0],
        "memory: difference": [abs(after - before) for before, after in sides if before and after],
        "host: guards and wrapper": [1e-6 * (split["guards_us"] + split["wrapper_us"]) for split in splits],
        "device: kernels and libraries": [1e-6 * (split["kernels_us"] + split["libraries_us"]) for split in splits],
        "of the datasheet": [row["gb_per_s"] / made["roofline"]["datasheet_gb_per_s"] for row in kernels],
        "attention: times as fast": [before["core"]["us"] / after["core"]["us"] for before, after in cores],
        "model: times as fast": [a["split"]["call_us"] / b["split"]["call_us"] for a, b in cores],
        "model: times as slow": [b["split"]["call_us"] / a["split"]["call_us"] for a, b in cores],
        "numbers of kernels, from their names": [int(row["name"].rpartition("_")[2]) for row in kernels],
        "what a share is under": [0.001],
    }


def names_of(made: dict, model: str) -> dict:
    return {"device": GPU if made["provenance"]["device"] == "h200" else CPU, "model": (model,)}


def training_of() -> Page:
    made = recorded("25/minigpt/training.json")
    here = in_half_the_time(elsewhere(made))  # so that one of the two is faster, whatever the record says
    sides = [
        (device, names, Source(one, {"device": names}, training_derived(one)))
        for device, names, one in (("h200", GPU, made), ("cpu-a", CPU, here))
    ]
    healths = [recorded("25/tiny_head/compile_health.json"), elsewhere(recorded("25/minigpt/compile_health.json"))]
    sources = [
        Source(one, {"device": GPU if one["provenance"]["device"] == "h200" else CPU}, health_derived(one))
        for one in healths
    ]
    return Page(
        lambda language: safety_section(healths, [("minigpt/h200", made), ("minigpt/cpu-a", here)], language),
        [*(source for _, _, source in sides), *sources],
    )


def in_half_the_time(made: dict) -> dict:
    """A training whose compiled side takes half as long."""
    compiled = made["compiled"]
    halved = {
        "first_step_seconds": compiled["first_step_seconds"] / 2,
        "seconds": [one / 2 for one in compiled["seconds"]],
        "tokens_per_second": 2 * compiled["tokens_per_second"],
    }
    return {**made, "compiled": {**compiled, **halved}}


def training_derived(made: dict) -> dict:
    eager, compiled = made["eager"], made["compiled"]
    spans = list(zip(pairwise(made["steps"]), pairwise(made["tokens"]), pairwise(compiled["seconds"]), strict=True))
    rates = [(end - start) / (last - first) for _, (first, last), (start, end) in spans]
    usual = 1 / compiled["tokens_per_second"]
    saved = 1 / eager["tokens_per_second"] - usual
    taken = [[b - a for a, b in pairwise(side["seconds"])] for side in (eager, compiled)]
    counts = [last - first for first, last in pairwise(made["tokens"])]
    return {
        "noise": [max(apart([s / n for s, n in zip(side, counts, strict=True)]) for side in taken)],
        "times as fast": [compiled["tokens_per_second"] / eager["tokens_per_second"]],
        "first step: later by": [compiled["first_step_seconds"] - eager["first_step_seconds"]],
        "a later compile": [
            (last - first) * (rate - usual) for rate, (_, (first, last), _) in zip(rates, spans, strict=True)
        ],
        "its first step": [before + 1 for (before, _), _, _ in spans],
        "paid back after, in millions of tokens": [
            (made["tokens"][-1] + (compiled["seconds"][-1] - eager["seconds"][-1]) / saved) / 1e6
        ],
        "tokens of the run, in millions": [made["tokens"][-1] / 1e6],
    }


def health_derived(made: dict) -> dict:
    timed = made["benchmark"]
    return {
        "largest difference": [max(timed["report"]["differences"].values(), default=None)],
        "noise": [max(apart(timed[side]["seconds"]) for side in ("eager", "compiled"))],
    }


def apart(seconds: list[float]) -> float:
    """How far two timings lie apart: every other one against those between, in ten blocks."""
    pairs = list(zip(seconds[0::2], seconds[1::2], strict=True))
    length = max(1, len(pairs) // 10)
    both = [
        [median(one) for one in zip(*pairs[start : start + length], strict=True)]
        for start in range(0, len(pairs), length)
    ]
    return sorted(max(pair) / min(pair) - 1 for pair in both)[int(0.9 * len(both))]


MINIGPT = MiniGPTConfig(vocab_size=600, block_size=128, n_layer=4, n_head=4, n_embd=64)


def survey_page() -> Page:
    made = [recorded("25/distributed.json"), elsewhere(recorded("25/distributed.json"))]
    sources = [
        Source(
            {**one, "runs": [run for run in one["runs"] if run["dtype"] == dtype]},
            {"device": names, "dtype": (dtype,)},
            survey_derived(one, dtype, 2),
        )
        for one, names in zip(made, (GPU, CPU), strict=True)
        for dtype in one["loss_rtol"]
    ]
    return Page(partial(survey, made, MINIGPT), [*sources, Source({}, derived=shared_by_the_survey(made))], ("1/N",))


def survey_of_four() -> Page:
    """Two ranks and four with every pattern: no record has them yet, so the figures are made up, each another one."""
    plain = distributed_artefact.artefact("h200", (2, 4), ("bfloat16", "float32"), patterns_on)
    made = {**elsewhere(plain), "provenance": plain["provenance"], **FRESH}
    sources = [
        Source(
            {**made, "runs": [run for run in made["runs"] if run["dtype"] == dtype and run["ranks"] in (1, ranks)]},
            {"device": GPU, "dtype": (dtype,)},
            survey_derived(made, dtype, ranks),
        )
        for dtype in made["loss_rtol"]
        for ranks in (2, 4)
    ]
    return Page(
        partial(survey, [made], MINIGPT), [*sources, Source({}, derived=shared_by_the_survey([made]))], ("1/N",)
    )


def survey_derived(made: dict, dtype: str, ranks: int) -> dict:
    runs = {run["pattern"]: run for run in made["runs"] if run["dtype"] == dtype and run["ranks"] in (1, ranks)}
    step = {name: median(run["step_seconds"]) for name, run in runs.items()}
    halves = [
        (run["step_seconds"][: (n := len(run["step_seconds"]) // 2)], run["step_seconds"][-n:]) for run in runs.values()
    ]
    pairs = [sorted(map(median, pair)) for pair in halves]
    micro = made["microbatches"]
    busy = [median(seconds) for seconds in runs["pp"]["busy_seconds_by_rank"]]
    bound, balance, split = (
        ranks * micro / (micro + ranks - 1),
        sum(busy) / ranks / max(busy),
        step["single"] / sum(busy),
    )
    bounds = {
        "pp": bound,
        "pp_interleaved": 2 * ranks * micro / (2 * micro + ranks - 1),
        "pp_zb1p": 6 * ranks * micro / (6 * micro + ranks - 1),
        "pp_zbv": 6 * ranks * micro / (6 * micro + max(ranks - 1, 2 * (2 * ranks - 1 - micro))),
    }
    crossing, reduced = median(runs["pp"]["alone_seconds"]), median(runs["tp"]["alone_seconds"])
    all_reduces = 4 * made["model"]["n_layer"] + 2
    return {
        "times one process": [run["tokens_per_s"] / runs["single"]["tokens_per_s"] for run in runs.values()],
        "noise": [max(after / before - 1 for before, after in pairs)],
        "tensor parallel: all-reduces": [all_reduces, all_reduces * reduced, all_reduces * reduced / step["tp"]],
        "pipeline: bubble": [bound, ranks - 1, micro + ranks - 1],
        "pipeline: the bounds of all schedules": bounds.values(),
        "pipeline: what unequal ranks leave of them": [
            bounds[name] * step["single"] / ranks / max(map(median, run["busy_seconds_by_rank"]))
            for name, run in runs.items()
            if name in bounds
        ],
        "pipeline: its factors": [balance, split, 1 / split, bound * balance * split, max(busy) / min(busy)],
        "pipeline: idle": [1 - seconds / step["pp"] for seconds in busy],
        "pipeline: hand-overs": [2 * micro, crossing, 2 * micro * crossing / step["pp"]],
    }


def shared_by_the_survey(made: list[dict]) -> dict:
    runs = [run for one in made for run in one["runs"] if run["pattern"] != "single"]
    parameters = 600 * 64 + 128 * 64 + 4 * (12 * 64 * 64 + 13 * 64) + 2 * 64 + 600 * 65
    return {
        "losses agree": [
            max(run["loss_max_rel_difference"] for run in runs if run["dtype"] == dtype)
            for dtype in made[0]["loss_rtol"]
        ],
        "runs": [len(runs)],
        "millions of parameters": [made[0]["model"]["parameters"] / 1e6],
        "MiniGPT: parameters, state, and half of it": [parameters, 16 * parameters, 8 * parameters],
    }


def report_page() -> Page:
    profiles = [recorded(f"25/{model}/profile.json") for model in ("tiny_head", "minigpt")]
    profiles += [elsewhere(profile) for profile in profiles]
    captures = [("tiny_head/h200", capture("tiny_head")), ("minigpt/h200", capture("minigpt"))]
    compared = [recorded(f"25/{model}/simulated_vs_real.json") for model in ("tiny_head", "minigpt")]
    surveys = [recorded("25/distributed.json"), elsewhere(recorded("25/distributed.json"))]
    safety = training_of()
    healths = [source.artefact for source in safety.sources if "healthy" in source.artefact]
    folders = [f"{made['model']}/{made['provenance']['device']}" for made in profiles]

    def write(language: str) -> str:
        timed = list(zip(folders, profiles, strict=True))
        return report_25(captures, timed, surveys, safety.write(language), compared, language, healths)

    sources = [
        *map(profile_source, profiles),
        *(Source({}, names_of(made, made["model"]["name"]), capture_derived([made])) for _, made in captures),
        *(Source({}, {"model": (made["model"],)}, compared_derived(made)) for made in compared),
        *safety.sources,
        *survey_page().sources,
        Source({}, derived=over_all(profiles, captures, compared, healths)),
    ]
    return Page(write, sources)


@cache
def capture(model: str) -> dict:
    return recorded(f"25/{model}/capture.json")


def capture_derived(captures: list[dict]) -> dict:
    """What became of each graph, and of all of them together."""
    graphs = [graph for made in captures for graph in made["graphs"]]
    counted = [fates_of(graph) for graph in graphs]
    return {what: [one[what] for one in counted] for what in counted[0]}


def fates_of(graph: dict) -> dict:
    calls, decisions = graph["calls"], graph["decisions"]
    of = {node["name"]: node["fate"] for node in graph["nodes"]}
    allocated = [buffer["name"] for buffer in graph["buffers"] if not buffer["removed"]]
    gone = [node for node in graph["nodes"] if node["fate"] in ("inlined", "fused away")]
    gone += [
        node for node in graph["nodes"]
        if node["target"] == "operator.getitem" and of[node["inputs"][0]] in ("inlined", "fused away")
        and node["buffer"] not in allocated
    ]  # fmt: skip
    return {
        "operations": sum(node["fate"] not in (None, "view") for node in graph["nodes"]),
        "never stored": sum(node["bytes"] or 0 for node in gone),
        "kernels": len(graph["kernels"]),
        "calls of them": sum(not call["extern"] for call in calls),
        "calls of libraries": sum(call["extern"] for call in calls),
        "fusions taken": sum(one["taken"] for one in decisions),
        "refused": sum(not one["taken"] for one in decisions),
    }


def compared_derived(made: dict) -> dict:
    same = ("source_same", "ttir_same", "ptx_same", "sass_same")
    return {
        "kernels": [len(graph["kernels"]) + len(graph["only"]["real"]) for graph in made["graphs"]],
        "in how many the same": [
            *(sum(one[what] is True for one in graph["kernels"]) for graph in made["graphs"] for what in same),
            *(sum(one["configuration"]["same"] for one in graph["kernels"]) for graph in made["graphs"]),
        ],
    }


def over_all(profiles: list, captures: list, compared: list, healths: list) -> dict:
    timings = [(made, row) for made in profiles for row in made["timings"]]
    devices = {made["provenance"]["device"] for made in profiles}
    pairs = [graph["coverage"] for _, made in captures for graph in made["graphs"]]
    refused = [
        json.dumps(one["reason"]["code"])
        for _, made in captures
        for graph in made["graphs"]
        for one in graph["decisions"]
        if not one["taken"]
    ]
    kernels = [one for made in compared for graph in made["graphs"] for one in graph["kernels"]]
    return {
        "timings": [len(timings)],
        "timings by verdict": [
            sum(row["verdict"] == told for _, row in timings) for told in ("faster", "slower", "same")
        ],
        "timings by verdict, on a device": [
            sum(row["verdict"] == told for made, row in timings if made["provenance"]["device"] == device)
            for device, told in product(devices, ("faster", "slower", "same"))
        ],
        "linked": [
            sum(one[what][place] for one in pairs) for what in ("compute_nodes", "kernel_lines") for place in (0, 1)
        ],
        "refusals by reason": [refused.count(code) for code in refused],
        "kernels that are the same": [len(kernels), sum(one["source_same"] is True for one in kernels)],
        "healthy": [len(healths), sum(one["healthy"] for one in healths)],
    }


ARRAY = {"numpy_name": "embedding", "torch_name": "embedding.weight", "shape": [600, 64], "byte_equal": True}


def phase_24() -> Page:
    bench, swap = recorded("24/bench.json"), recorded("24/kernel_swap.json")
    made = (artefacts.TRAINING, {**artefacts.PORT, "arrays": [ARRAY] * 53}, artefacts.EQUIVALENCE)
    training, port, equivalence = made
    lab = ["naive", "smem", "fused", "triton"]  # as the phase asks
    manifest = manifest_24(bench, recorded("24/autotune.json"), swap, equivalence, port, 42, lab)
    rows = [row for row in bench["rows"] if row["kernel"] in lab]
    derived = {
        "times as fast as F.softmax": [row["reference_us"] / row["median_us"] for row in rows],
        "arrays that are the same": [sum(array["byte_equal"] for array in port["arrays"])],
    }
    derived |= {"the phase, how much it asked for, and its bars": [24, 7, 0.02, 1e-5, 512]}
    sources = [Source([*made, recorded("24/autotune.json")["choices"]]), Source({}, derived=derived)]
    return Page(
        lambda language: phase_report(24, "T", checks_24(manifest, training, port, language), {}, {}, language),
        sources,
    )


def phase_25() -> Page:
    profiles = [recorded(f"25/{model}/profile.json") for model in ("tiny_head", "minigpt")]
    captures = [("tiny_head/h200", capture("tiny_head")), ("minigpt/h200", capture("minigpt"))]
    healths = [recorded(f"25/{model}/compile_health.json") for model in ("tiny_head", "minigpt")]
    manifest = {**manifest_25(42, captures, profiles, {}), **safety_entries(healths, [])}
    head = [made for _, made in captures if made["model"]["name"] == "tiny_head"]
    derived = {
        "captures, and those of TinyHead": [len(captures), len(head)],
        "timings": [sum(len(made["timings"]) for made in profiles)],
        "graph breaks": [sum(one["count"] for _, made in captures for one in made["graph_breaks"])],
        "healthy": [sum(one["healthy"] for one in healths), len(healths)],
        "the phase, how much it asked for, and its bar": [25, 7, 1e-6],
    }
    sources = [*(Source(made["timings"]) for made in profiles), Source({}, derived=derived)]
    surveys = [recorded("25/distributed.json")]
    return Page(
        lambda language: phase_report(25, "T", checks_25(manifest, surveys, language), {}, {}, language), sources
    )
