"""MiniGPT Lab: from a NumPy language model to measured GPU kernels and a compiler laid open.

Main job: snakemake --cores 4 results/24/roofline.png
"""

from snakemake.jobs import GroupJob
from snakemake.utils import min_version

min_version("9.27")


include: "rules/common.smk"


configfile: readable("config.yaml")


plan, named_model = planned(config, workflow)
timing_cores, timing_gpus = timing(
    workflow.cores, None if workflow.non_local_exec else workflow.global_resources.get("gpu")
)
timed_kernels = [*config["kernels"], *sum(config["references"].values(), [])]
users_kernels = [name for name, entry in config["kernels"].items() if is_users(name, entry)]


wildcard_constraints:
    device="[a-z0-9][a-z0-9-]*",
    kernel=any_of(timed_kernels),


onstart:
    # Jobs that run here begin as soon as they may. With a limit on their rate (100 a second by itself) Snakemake 9.27
    # weighs all ready jobs again every second, once for each job that has ended, and waits a second at its end.
    if not workflow.non_local_exec:
        workflow.scheduler.job_rate_limiter = None
    directives.say_why_groups_fail(GroupJob, logger.error)
    for one in workflow.rules:
        one.message = directives.message(one.name, len(one.output), bool(one.log))


localrules:
    all,
    bench,
    what_if,
    plain_files,
    plain_files_triton,
    restore,
    restore_of_model,
    restore_distributed,
    restore_gemv,
    restore_model,
    restore_loss,
    record,
    verify_records,
    lock,
    explain_drift,
    manifest_24,
    report_24,
    report_25,
    report_26,
    report_27,
    phase_reports,
    dag,
    lab_page,
    first_look,


rule all:
    """Everything that this machine can build."""
    default_target: True
    input:
        "results/17/loss.png",
        "results/24/README.md",
        "results/24/manifest.json",
        "results/24/roofline.png",
        ["results/24/bandwidth.png"] if plan.headline_with("contest") else [],
        "results/25/REPORT.md",
        ["results/26/README.md"] if plan.headline_with("model_contest") else [],
        ["results/27/README.md"] if plan.losses else [],
        "results/PHASE_24_REPORT.md",
        "results/PHASE_25_REPORT.md",
        "results/lab.lock.json",
        "results/dag.svg",
        "results/lab.html",


include: "rules/checkpoint.smk"
include: "rules/port.smk"
include: "rules/kernels.smk"
include: "rules/report.smk"
include: "rules/records.smk"
include: "rules/survey.smk"
include: "rules/capture.smk"
include: "rules/profile.smk"
include: "rules/gemv.smk"
include: "rules/compile.smk"
include: "rules/annotate.smk"
include: "rules/what_if.smk"
include: "rules/explorer.smk"
include: "rules/report_25.smk"
include: "rules/lock.smk"
include: "rules/exercise.smk"
include: "rules/grade.smk"
include: "rules/model.smk"
include: "rules/loss.smk"
include: "rules/front_door.smk"
include: "rules/content.smk"
