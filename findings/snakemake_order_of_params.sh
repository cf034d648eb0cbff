#!/usr/bin/env bash
# snakemake 9.27.1. Parameters are compared as they are written out. A dictionary with the same keys and values in
# another order, equal in Python, counts as changed: the jobs run again, and all that comes after them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'snakemake==9.27.1' 'snakemake-interface-common==1.23.0' 'packaging==25.0'

cat > Snakefile <<'RULES'
options = {"rows": 64, "columns": 600}
if config["turned"]:
    options = dict(reversed(options.items()))
assert options == {"rows": 64, "columns": 600}

rule measure:
    output: "measured.txt"
    params: options=options
    shell: "echo measured > {output}"
RULES
snakemake --cores 1 --config turned=0 2> errors || cat errors
for turned in 0 1; do
  snakemake --dry-run --config turned=$turned > said 2>&1 || cat said
  echo "turned=$turned: $(grep -oE 'Nothing to be done|params have changed since last execution' said)" >> output
done

finding "a dictionary that equals the one of the last run is no change" \
  "in another order it is one" <<'SEEN'
turned=0: Nothing to be done
turned=1: params have changed since last execution
SEEN
