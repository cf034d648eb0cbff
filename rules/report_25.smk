# Stage 25, what a person reads: the report, the manifest, and one page that closes each phase.
# Needs: the captures, annotations, explorers, profiles, compile checks and trainings of this run, the survey; stage 24's manifest and picture.
# Makes: results/25/{REPORT.md,manifest.json}, results/PHASE_24_REPORT.md, results/PHASE_25_REPORT.md.


rule report_25:
    """Interpret what the compiler did: what was fused and refused, whether it still computes the same, what it cost."""
    input:
        captures=CAPTURES,
        compared=COMPARED,
        profiles=PROFILES,
        health=HEALTH,
        trainings=PORT_TRAININGS,
        distributed=expand(rules.distributed.output.report, device=plan.surveyed),
        kernels=KERNELS,
        pages=[*ANNOTATIONS, *EXPLORERS, *PROFILE_PAGES, *GEMV_PAGES, *TRAINING_PICTURES, rules.survey.output.survey],
        lib=code("scripts/report_25.py"),
    output:
        report=shown("results/25/REPORT.md", "report_25", "compiler"),
        manifest="results/25/manifest.json",
    log:
        "logs/25/report_25.log",
    benchmark:
        "logs/25/report_25.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        seed=lookup(within=config, dpath="training/seed"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/report_25.py"


rule phase_reports:
    """Close phases 24 and 25: what was asked, what was found, whether it is met."""
    input:
        training=rules.train.output.record,
        port=rules.port.output.report,
        manifest_24=rules.manifest_24.output.manifest,
        roofline=rules.roofline.output.png,
        report_24=rules.report_24.output.report,
        manifest_25=rules.report_25.output.manifest,
        distributed=rules.report_25.input.distributed,
        survey_picture=rules.survey.output.picture,
        lib=code("scripts/phase_reports.py"),
    output:
        phase_24=shown("results/PHASE_24_REPORT.md", "report_25", "phase"),
        phase_25=shown("results/PHASE_25_REPORT.md", "report_25", "phase"),
    log:
        "logs/phase_reports.log",
    benchmark:
        "logs/phase_reports.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/phase_reports.py"
