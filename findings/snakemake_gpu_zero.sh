#!/usr/bin/env bash
# snakemake 9.27.1. A resource limit of 0 forbids nothing: with `--resources gpu=0` a job that asks for gpu=1 runs,
# and is told that it has 0. Snakemake cuts what a job asks for down to the limit, in place of leaving the job out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'snakemake==9.27.1' 'snakemake-interface-common==1.23.0' 'packaging==25.0'

cat > Snakefile <<'RULES'
rule on_a_gpu:
    output: "told.txt"
    resources: gpu=1
    shell: "echo the job ran with gpu={resources.gpu} > {output}"
RULES
snakemake --cores 1 --resources gpu=0 -- told.txt 2> errors || cat errors
cp told.txt output

finding "a machine that has no GPU to give refuses the job, or lets it wait" \
  "the job runs" <<'SEEN'
the job ran with gpu=0
SEEN
