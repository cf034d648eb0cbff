# Stage 26, the whole model: MiniGPT's forward pass and its writing on every rung, from eager to one kernel.
# Needs: a GPU, results/17/{checkpoint.npz,corpus.txt,vocab.json} to measure; for a GPU that is not here
#   results/recorded/{device}/26/{model,training}.json, in git (rules/records.smk restores them); the GPU's ceilings.
#   A record without training.json has a report without that part.
# Makes: results/26/{device}/{model,training}.json,
#   results/26/{model.png,model.svg,training.png,training.svg,timeline.html,README.md}.

MODEL = expand("results/26/{device}/model.json", device=plan.headline_gpu)
TRAINING = expand("results/26/{device}/training.json", device=plan.headline_with("training_contest"))
CEILINGS_OF_GPU = expand("results/24/{device}/ceilings.json", device=plan.headline_gpu)


rule model_contest:
    """Time the whole model on every rung in one process: eager, torch.compile's modes, a graph of ours, one kernel."""
    input:
        equivalence=ancient(PROVEN),
        checkpoint=rules.export_checkpoint.output.checkpoint,
        corpus=rules.corpus.output.corpus,
        vocabulary=rules.corpus.output.vocabulary,
        sources=sources("model_contest"),
        schema="schemas/model_contest.schema.yaml",
    output:
        model="results/26/{device}/model.json",
    log:
        "logs/26/{device}/model_contest.log",
    benchmark:
        "logs/26/{device}/model_contest.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(16000),
        runtime=growing(minutes(2 * config["model_contest"]["time_limit_seconds"])),
    params:
        measuring=measuring("model_contest"),
    script:
        "../scripts/model_contest.py"


rule training_contest:
    """Time a training step on every rung, and the whole training in one launch, in one process."""
    input:
        equivalence=ancient(PROVEN),
        corpus=rules.corpus.output.corpus,
        vocabulary=rules.corpus.output.vocabulary,
        sources=sources("training_contest"),
        schema="schemas/training_contest.schema.yaml",
    output:
        training="results/26/{device}/training.json",
    log:
        "logs/26/{device}/training_contest.log",
    benchmark:
        "logs/26/{device}/training_contest.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(16000),
        runtime=growing(minutes(2 * config["training_contest"]["time_limit_seconds"])),
    params:
        measuring=measuring("training_contest"),
    script:
        "../scripts/training_contest.py"


rule model_picture:
    """Draw what a forward pass takes on every rung, what it consists of, and how the model climbs the roofline."""
    input:
        model=MODEL,
        ceilings=CEILINGS_OF_GPU,
        lib=code("scripts/model_picture.py"),
    output:
        png=shown("results/26/model.png", "model", "model"),
        svg="results/26/model.svg",
    log:
        "logs/26/model_picture.log",
    benchmark:
        "logs/26/model_picture.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/model_picture.py"


rule steps_picture:
    """Draw what a training step takes on every rung, from eager to one launch, at each shape of the schedule."""
    input:
        training=TRAINING,
        ceilings=CEILINGS_OF_GPU,
        lib=code("scripts/steps_picture.py"),
    output:
        png=shown("results/26/training.png", "model", "steps"),
        svg="results/26/training.svg",
    log:
        "logs/26/steps_picture.log",
    benchmark:
        "logs/26/steps_picture.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/steps_picture.py"


rule timeline:
    """Show one forward pass block by block, every multiprocessor a row, beside the compiled model's kernels."""
    input:
        model=MODEL,
        training=TRAINING,
        lib=code("scripts/timeline.py"),
    output:
        page=shown("results/26/timeline.html", "model", "timeline"),
    log:
        "logs/26/timeline.log",
    benchmark:
        "logs/26/timeline.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/timeline.py"


rule report_26:
    """Say what each rung of the whole model removes, what one kernel adds to a graph, and what was asked and met."""
    input:
        model=MODEL,
        training=TRAINING,
        ceilings=CEILINGS_OF_GPU,
        picture=rules.model_picture.output.png,
        steps=rules.steps_picture.output.png if TRAINING else [],
        timeline=rules.timeline.output.page,
        lib=code("scripts/report_26.py"),
    output:
        report=shown("results/26/README.md", "model", "model_report"),
    log:
        "logs/26/report_26.log",
    benchmark:
        "logs/26/report_26.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/report_26.py"
