# What the scripts beside this file share. Each makes a folder of its own, $folder, pins its packages, and sources this.

trap 'rm -rf "$folder"' EXIT
for_this_run=() # packages of the environment, as they were pinned

# environment PACKAGE==VERSION ...: these packages, and nothing else that this machine or this project has on a path.
# A second call puts other versions in their place.
environment() {
  unset PYTHONPATH PYTHONHOME
  for_this_run+=("$@")
  cd "$folder"
  [ -d venv ] || "${PYTHON:-python3}" -m venv venv
  venv/bin/python -m pip install --quiet --no-compile "$@" # a module is compiled as it is imported, most never
  export PATH="$folder/venv/bin:$PATH"
  export TORCHINDUCTOR_CACHE_DIR="$folder/inductor" TRITON_HOME="$folder"
}

# finding GUESS FOUND, what was seen on standard input: says so, and holds the file `output` against it.
finding() {
  printf 'package: %s\n' "${for_this_run[@]}"
  printf 'a guess: %s\nfound:   %s\n' "$1" "$2"
  if diff --label "what was seen" --label "what is seen now" -u - output; then
    sed 's/^/    /' output
    echo "as found"
  else
    echo "no longer as found"
    return 1
  fi
}
