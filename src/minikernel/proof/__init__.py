"""Is a kernel right: cases, accuracy, redzones, a compile check without a GPU."""
