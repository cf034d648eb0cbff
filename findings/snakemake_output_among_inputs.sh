#!/usr/bin/env bash
# snakemake 9.27.1. A rule whose output is among its inputs is a cycle, an error, as long as it is the only one to
# make the file. Beside another rule for the same file it is left out without a word: no cycle is told, nor that two
# rules make one file, which without the cycle is an error. What the rule would have added is missing, and the run
# succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'snakemake==9.27.1' 'snakemake-interface-common==1.23.0' 'packaging==25.0'

cat > header.smk <<'RULES'
rule header:
    output: "table.txt"
    shell: "echo header > {output}"
RULES
cat > row.smk <<'RULES'
rule row:
    output: "table.txt"
    shell: "echo row >> {output}"
RULES
cat > cycle.smk <<'RULES'
rule row:
    input: "table.txt"
    output: "table.txt"
    shell: "echo row >> {output}"
RULES
for rules in cycle header,row header,cycle; do
  mkdir "$rules"
  cat $(printf '%s.smk ' ${rules//,/ }) > "$rules/Snakefile"
  if snakemake --directory "$rules" --snakefile "$rules/Snakefile" --cores 1 table.txt > said 2>&1; then
    echo "$rules: made" $(cat "$rules/table.txt")
  else
    echo "$rules: $(grep -oE '^[A-Za-z]+Exception' said)"
  fi
done > output

finding "the cycle is an error beside another rule too, or the two run in turn" \
  "the rule is left out, and the file has the header alone" <<'SEEN'
cycle: CyclicGraphException
header,row: AmbiguousRuleException
header,cycle: made header
SEEN
