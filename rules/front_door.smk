# The front door: a first look at the records; the graph of the rules, and one page that leads to every stage and file.
# Needs: results/recorded/ alone for the first look; for the rest everything that a plain `snakemake` builds, what Snakemake
#   says of it, and the captions in report/.
# Makes: results/first_look.html and what it shows in results/first_look/, results/dag.svg, results/dag.mmd, results/lab.html.

FRONT_DOOR = ["results/dag.svg", "results/dag.mmd", "results/lab.html"]
LOOKED_AT = Plan(config, measured=[]).looked_at  # the records of devices that are here among them
RULE_FILES = ["Snakefile", *sorted(map(str, Path("rules").glob("*.smk")))]


rule first_look:
    """Show what the records hold on one page, in seconds: nothing is trained or compiled for it."""
    input:
        records=[entry.record(**at) for entry, at in LOOKED_AT],
        sums=sorted({f"{RECORDED}/{at['device']}/SHA256SUMS" for _, at in LOOKED_AT}),
        sources=lambda wildcards: sorted({path for one in LOOKED_AT for path in refusing(plan.recorded_sources)(*one)}),
        schemas=sorted({entry.schema for entry, _ in LOOKED_AT}),
        lib=code("scripts/first_look.py"),
    output:
        page="results/first_look.html",
        shown=[
            f"results/first_look/{page}.html"
            for page, name in (("explorer", "watched"), ("timeline", "model_contest"))
            if name in [entry.name for entry, _ in LOOKED_AT]
        ],
    log:
        "logs/first_look.log",
    benchmark:
        "logs/first_look.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        config=config,
    script:
        "../scripts/first_look.py"


rule dag:
    """Draw the graph of the rules, as Snakemake itself prints it."""
    input:
        rules=RULE_FILES,
        lib=code("scripts/dag.py"),
    output:
        svg=shown("results/dag.svg", "front_door", "dag"),
        mermaid="results/dag.mmd",
    log:
        "logs/dag.log",
    benchmark:
        "logs/dag.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        rules=lambda wildcards: described(workflow),
        config=config,
    script:
        "../scripts/dag.py"


rule lab_page:
    """Lead the reader in: every stage, rule, file and report on one page that works offline."""
    input:
        results=[path for path in rules.all.input if path not in FRONT_DOOR],
        graph=rules.dag.output.svg,
        rules=RULE_FILES,
        docs=[*map(str, sorted(Path("docs").glob("concepts/*.md"))), "docs/README.md", "exercises/README.md"],
        captions=sorted(str(path) for path in Path("report").rglob("*.rst")),
        lib=code("scripts/lab_page.py"),
        words=sorted(str(path) for path in Path("src/minilab/locale").glob(f"{config['language']}/*.yaml")),
    output:
        page="results/lab.html",
    log:
        "logs/lab_page.log",
    benchmark:
        "logs/lab_page.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        rules=lambda wildcards: described(workflow),
        config=config,
    script:
        "../scripts/lab_page.py"
