#!/usr/bin/env bash
# snakemake 9.27.1. `--config` reads a number at the top as a number, and the same number within a mapping as text.
# `--config 'training={seed: 7}'` puts the text "7" over the number 7 that config.yaml has there, and "false", a text,
# counts as true.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
. "$here/environment.bash"
environment 'snakemake==9.27.1' 'snakemake-interface-common==1.23.0' 'packaging==25.0'

echo 'training: {seed: 7, rate: 0.5, shuffle: false}' > config.yaml
cat > Snakefile <<'RULES'
configfile: "config.yaml"
print("read:", {key: config.get(key) for key in ("seed", "rate", "training")})
rule nothing:
RULES
snakemake --dry-run > from_file 2> errors || cat errors
given=('seed=7' 'rate=0.5' 'training={seed: 7, rate: 0.5, shuffle: false}')
snakemake --dry-run --config "${given[@]}" > from_command 2> errors || cat errors
grep -h '^read:' from_file from_command > output

finding "a mapping given to --config has the types that it has in config.yaml" \
  "every value in it is a text" <<'SEEN'
read: {'seed': None, 'rate': None, 'training': {'seed': 7, 'rate': 0.5, 'shuffle': False}}
read: {'seed': 7, 'rate': 0.5, 'training': {'seed': '7', 'rate': '0.5', 'shuffle': 'false'}}
SEEN
