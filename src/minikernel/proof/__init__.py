"""Is a kernel right: cases, accuracy, redzones, a sandbox for users' code, a compile check without a GPU."""
