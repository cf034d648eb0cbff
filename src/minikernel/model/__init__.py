"""MiniGPT as one kernel: its weights packed for a cluster of blocks, and a whole text written in one launch."""
