"""MiniGPT as one kernel, a room for each way to do it; here is which of them runs, and what they share."""
