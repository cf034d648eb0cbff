"""Works out what stage 25's report says of compiling safely: each model's health, and the port's training.

`templates/safety_25.md` says it, with what `training_report` has to say of the trainings.
"""

from minicompile.profile.figures import judged
from minicompile.report import words
from minicompile.report.training_report import interpretation
from minilab.pages.templates import render


def safety_section(health: list[dict], trainings: list[tuple[str, dict]], language: str = "en") -> str:
    """Write the report's section on compiling safely, in Markdown.

    Args:
        health: the `compile_health.json` of every captured model and device.
        trainings: (folder relative to the report, `training.json` of the port) of every device.
        language: of the text.
    """
    views = [_training_view(folder, training, language) for folder, training in trainings]
    values = {"health": list(map(health_view, health)), "trainings": views}
    return render("minicompile.report", "safety_25", language, values, filters=words.filters(language))


def health_view(health: dict) -> dict:
    """What there is to say of one `compile_health.json`: a row of figures, and the complaints."""
    timed, report = health["benchmark"], health["benchmark"]["report"]
    eager, compiled = timed["eager"], timed["compiled"]
    verdict, noise = None, None
    if compiled:
        sides = [eager["seconds"], compiled["seconds"]]
        verdict, noise = judged(eager["step_seconds"], compiled["step_seconds"], sides)
    return {
        "model": health["model"],
        "device": health["provenance"]["device"],
        "stale": words.is_stale(health),
        "healthy": health["healthy"],
        "complaints": health["complaints"],
        "trains": timed["training"],
        "compile_seconds": report["compile_seconds"],
        "eager_ms": 1e3 * eager["step_seconds"],
        "compiled_ms": compiled and 1e3 * compiled["step_seconds"],
        "verdict": verdict,
        "noise": noise,
        "graphs": report["graphs"],
        "guards": report["guards"],
        "largest_difference": max(report["differences"].values(), default=None),
    }


def _training_view(folder: str, training: dict, language: str) -> dict:
    return {
        "device": training["provenance"]["device"],
        "stale": words.is_stale(training),
        "folder": folder,
        "sentences": interpretation(training, language),
    }


def safety_entries(health: list[dict], trainings: list[tuple[str, dict]]) -> dict:
    """What stage 25's manifest holds of the same: `compile_health` and `port_training`, a row for each."""
    return {
        "compile_health": [
            {name: view[name] for name in ("model", "device", "healthy", "complaints", "largest_difference")}
            for view in map(health_view, health)
        ],
        "port_training": [
            {
                "device": training["provenance"]["device"],
                "compiled": training["compile"]["compiled"],
                "steps": training["steps"][-1],
                "largest_difference": training["largest_difference"]["nats"],
                "tokens_per_second": {name: training[name]["tokens_per_second"] for name in ("eager", "compiled")},
                "held_out_cross_entropy": {
                    name: training[name]["held_out_cross_entropy"] for name in ("eager", "compiled")
                },
            }
            for _, training in trainings
        ],
    }
