# The lock: what a rebuild depends on, in digests, and what changed between two builds.
# Needs: the results that the same inputs give again anywhere, the captured graphs, the tuned choices.
# Makes: results/lab.lock.json, results/drift.md.

CORPUS = [str(path) for path in rules.corpus.output]  # plain text: a job's params are sent to its script
TRAINED, CHECKPOINT = str(rules.train.output.weights), str(rules.export_checkpoint.output.checkpoint)
LOCKED = {
    **{path: {"sources": closure("scripts/corpus.py"), "config": ["corpus"], "of": []} for path in CORPUS},
    TRAINED: {"sources": closure("scripts/train.py"), "config": ["model", "training", "corpus"], "of": CORPUS},
    CHECKPOINT: {"sources": closure("scripts/export_checkpoint.py"), "config": [], "of": [TRAINED]},
    str(rules.port.output.weights): {"sources": closure("scripts/port.py"), "config": [], "of": [CHECKPOINT]},
}
TREE = sorted(
    str(path)
    for pattern in ("Snakefile", "rules/*.smk", "scripts/*.py", "schemas/*.yaml", "envs/*.yaml", "src/mini*/**/*.*")
    for path in Path().glob(pattern)
    if "__pycache__" not in path.parts
)


rule lock:
    """Write down versions, digests, graph hashes and tuned choices: what a rebuild depends on."""
    input:
        results=list(LOCKED),
        graphs=[
            capture.replace("capture.json", name) for capture in CAPTURES for name in ("fx_graph.py", "post_grad.py")
        ],
        autotunes=expand("results/24/{device}/autotune.json", device=[gpu for gpu in plan.devices if not is_cpu(gpu)]),
        sources=TREE,
    output:
        lock="results/lab.lock.json",
    log:
        "logs/lock.log",
    benchmark:
        "logs/lock.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        config={name: value for name, value in config.items() if name not in ("before", "after", "against")},
        made=LOCKED,
    script:
        "../scripts/lock.py"


rule explain_drift:
    """Say what changed since another build, whose lab.lock.json config's `against` names, and what that changed."""
    input:
        before=named(
            "against",
            "explain_drift compares this build with another, and it is not said which; run `snakemake --cores 4 "
            "explain_drift --config against=PATH`, with the path of the other build's lab.lock.json.",
        ),
        after=rules.lock.output.lock,
    output:
        text="results/drift.md",
    log:
        "logs/explain_drift.log",
    benchmark:
        "logs/explain_drift.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/explain_drift.py"
