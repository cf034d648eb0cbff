# Stage 25, what if: a model compiled twice with one knob of torch.compile flipped, and what that changed.
# Needs: results/17/checkpoint.npz for the models that are MiniGPT; config's knob, and the model that --config names.
# Makes: results/25/{model}/{device}/what_if/{knob}.{json,html}.

WHAT_IF_ADVICE = (
    "what_if flips one knob of one model's compile; name both with `snakemake --cores 2 what_if --config model=MODEL "
    f"knob=KNOB`; models are {', '.join(plan.captured)}, knobs are {', '.join(KNOBS)}."
)


rule what_if:
    """Show what flipping one knob of torch.compile changes, on each device here that the knob acts on."""
    input:
        refusing(
            lambda wildcards: directives.what_if_pages(plan, named_model, KNOBS.get(config["knob"]), WHAT_IF_ADVICE)
        ),
    resources:
        mem_mb=growing(100),
        runtime=growing(1),


rule what_if_compiled:
    """Compile a model twice with one knob flipped: lines, kernels, launches, bytes and, on a device here, time."""
    input:
        checkpoint=of_minigpt("results/17/checkpoint.npz"),
        sources=sources("what_if"),
        schema="schemas/what_if.schema.yaml",
    output:
        found="results/25/{model}/{device}/what_if/{knob}.json",
    log:
        "logs/25/{model}/{device}/what_if_{knob}.log",
    benchmark:
        "logs/25/{model}/{device}/what_if_{knob}.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
        device=any_of([*plan.measured, SIMULATED]),
        knob=any_of(KNOBS),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(4000),
        runtime=growing(10),
    params:
        measuring=measuring("what_if"),
        users_code=limits(2),
    script:
        "../scripts/what_if.py"


rule what_if_page:
    """Ask for a guess, then show both sides of a what-if: counts, time, and the code side by side."""
    input:
        found="results/25/{model}/{device}/what_if/{knob}.json",
        lib=code("scripts/what_if_page.py"),
    output:
        page="results/25/{model}/{device}/what_if/{knob}.html",
    log:
        "logs/25/{model}/{device}/what_if_page_{knob}.log",
    benchmark:
        "logs/25/{model}/{device}/what_if_page_{knob}.tsv"
    wildcard_constraints:
        knob=any_of(KNOBS),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/what_if_page.py"
