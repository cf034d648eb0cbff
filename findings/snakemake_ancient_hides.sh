#!/usr/bin/env bash
# snakemake 9.27.1. A job with an input that is `ancient` does not run because that input is made again; but while that
# is to be made again, Snakemake does not ask whether the job has reasons of its own. A changed parameter waits for the
# next run, and what comes after this one uses the old result.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'snakemake==9.27.1' 'snakemake-interface-common==1.23.0' 'packaging==25.0'

cat > Snakefile <<'RULES'
rule measure:
    input: ancient("allowed.txt")
    output: "measured.txt"
    params: rows=config["rows"]
    shell: "echo {params.rows} > {output}"

rule allow:
    output: "allowed.txt"
    params: since=config["since"]
    shell: "echo {params.since} > {output}"
RULES
jobs() {
  snakemake --dry-run --config rows="$1" since="$2" -- measured.txt allowed.txt > said 2>&1 || cat said
  echo "rows=$1 since=$2: $(grep -oE '^rule [a-z]+|Nothing to be done' said | sort | paste -sd, -)" >> output
}
snakemake --cores 1 --config rows=1 since=1 -- measured.txt allowed.txt 2> errors || cat errors
jobs 1 1
jobs 2 1
jobs 1 2
jobs 2 2

finding "with both parameters changed both jobs run" \
  "the one behind the ancient input does not" <<'SEEN'
rows=1 since=1: Nothing to be done
rows=2 since=1: rule measure
rows=1 since=2: rule allow
rows=2 since=2: rule allow
SEEN
