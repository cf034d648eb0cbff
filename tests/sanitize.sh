#!/usr/bin/env bash
# The kernels' small GPU tests under NVIDIA's compute-sanitizer: accesses out of bounds (memcheck), races in shared
# memory (racecheck), barriers misused (synccheck), reads of device memory that nobody wrote (initcheck).
#
#     tests/sanitize.sh [TOOL ...]     all four unless named; needs a GPU, and compute-sanitizer on the PATH
#     WORKERS=8 tests/sanitize.sh      eight tests at a time
#
# torch's allocator would lend a kernel that strays the memory of its neighbour, so it is told to keep none. That
# rules out the tests that capture CUDA graphs; those at every layout, which take minutes each, are left out too.
# Only the lab's kernels are watched, except by initcheck, which must see every write.
#
# The whole model's kernels are looked at by memcheck alone, the training's by all but initcheck. racecheck sees no
# order in writes of a warp's lanes, then __syncwarp, then one lane's arrival at an mbarrier: on an H200 it reported
# forward_block, and nothing of it once every lane arrived by itself. What one tool reports, or one part, keeps nobody
# else from being looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTORCH_NO_CUDA_MEMORY_CACHING=1

tests=(tests/minikernel/ops/test_{softmax_properties,softmax_cuda,softmax_backward,softmax_triton,linear_softmax}.py)
loss=tests/minikernel/ops/linear_cross_entropy
tests+=("$loss/test_small_loss.py" "$loss/test_kernels.py::test_on_a_gpu_a_wrong_class_is_nan_and_no_access_out_of_bounds")
training=tests/minikernel/model/train/test_small_training.py
ours=() of_model=()
for part in naive smem warp fused_ backward_ linear_softmax softmax_kernel softmax_backward_kernel \
  {forward,weight,gather,finish,rows,times,reference,exponentials,sums,again,tokens,targets}_kernel; do
  ours+=(--kernel-name "kns=$part")
done
whole_model=(tests/minikernel/model/{generate/test_launch,block/test_forward_block,cluster/test_forward_cluster,train/test_train_launch}.py)
for part in write_text forward_block forward_cluster train_; do of_model+=(--kernel-name "kns=$part"); done
found=0

# under TOOL, of FILES, what is left of the arguments: the kernels that are watched
look() {
  compute-sanitizer --tool "$1" --error-exitcode 1 --target-processes all "${@:3}" \
    python -m pytest -n "${WORKERS:-0}" -m gpu -k "not graph and not every_layout" $2 || found=1
}

[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck
for tool; do
  echo "== $tool"
  case $tool in
    initcheck) look "$tool" "${tests[*]}" ;;
    memcheck) look "$tool" "${tests[*]} ${whole_model[*]} $training" "${ours[@]}" "${of_model[@]}" ;;
    *)
      look "$tool" "${tests[*]}" "${ours[@]}"
      look "$tool" "$training" --kernel-name kns=train_
      ;;
  esac
done
exit $found
