"""How kernels' processes are started; nothing heavy is imported here."""

from minilab.device import usable_cores

FORKED = "minikernel.judge.forked:main"  # what a `ForkServer` of kernels' processes calls
# Threads that wait for work sleep: those of one process would otherwise take the cores from the other's.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(usable_cores()), "TRITON_INTERPRET": "0"}
# What a Triton kernel does that says nothing of multiplying and adding at once is the same on every machine.
WAITING["TRITON_DEFAULT_FP_FUSION"] = "1"
