#!/usr/bin/env bash
# The GPU tests of a room, on a machine that has what they import, and pytest: without the project's conftest, options
# and plugins, and without the files in which no test needs a GPU.
#
#     tests/on_gpu.sh [PATH ...]     those of the training unless named; PYTEST_ADDOPTS goes to pytest
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=.:src:tests:tests/minikernel
[ $# -gt 0 ] || set -- tests/minikernel/{model,measure}/train*
grep -rlZ --include='test_*.py' 'pytest\.mark\.gpu' "$@" | sort -z | xargs -0 python -m pytest -m gpu -rs \
  -c /dev/null --rootdir . --noconftest -p no:cacheprovider -W ignore::pytest.PytestUnknownMarkWarning
