#!/usr/bin/env bash
# Runs what depends on torch with another torch than the one that continuous integration has:
#
#   tests/on_torch.sh 2.15.0                        every suite, and the main job on tests/small.yaml
#   tests/on_torch.sh 2.15.0 minicompile/safe       one suite: a folder of tests of a package that imports torch
#   tests/on_torch.sh 2.15.0 'main job'
#
# The environment is made from public packages in .torch/VERSION, or where ON_TORCH says, and is kept. Without a local
# label (2.13.0+cpu) it is the default wheel, which for Linux is a build for CUDA of some gigabytes. What came of each
# suite is kept in docs/build/data/on_torch.json, and `python -m docs.build playbook` writes the table of it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which torch? write its version, such as 2.15.0}
shift
folder=${ON_TORCH:-.torch}/$version
python=$(realpath -ms "$folder")/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! "$python" -c 'import pytest, snakemake, torch' 2>/dev/null; then
  python3 -m venv "$folder"
  # what the tests need, but for the torch and triton that they run on by default
  mapfile -t needed < <("$python" -c 'if True:
    import tomllib
    asked = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"]
    print(*(one for one in asked if not one.startswith(("torch", "triton"))), sep="\n")')
  "$python" -m pip install "torch===$version" -e . "${needed[@]}" ||
    { echo "tests/on_torch.sh: there is no environment with torch $version; see what pip says above." >&2; exit 1; }
fi
export PATH="${python%/*}:$PATH" PYTHONPATH="$PWD/src"

if [ $# = 0 ]; then
  mapfile -t suites < <("$python" tests/on_torch.py)
  set -- "${suites[@]}" 'main job'
fi
failed=0
for suite; do
  echo "== torch $version: $suite"
  report=$scratch/report.xml status=0
  rm -f "$report"
  if [ "$suite" = 'main job' ]; then
    git clone -q . "$scratch/lab"
    (cd "$scratch/lab" && PYTHONPATH=$PWD/src "$python" -m snakemake --cores 2 results/24/roofline.png \
      --configfile tests/small.yaml) || status=$?
    rm -rf "$scratch/lab"
  else
    # of a folder its own files: those below it are suites of their own
    "$python" -m pytest tests/"$suite"/test_*.py --junitxml="$report" || status=$?
    [ $status != 5 ] || status=0 # all of them are slow, and left out
  fi
  "$python" tests/on_torch.py "$suite" "$status" "$report"
  [ "$status" = 0 ] || failed=1
done
exit $failed
