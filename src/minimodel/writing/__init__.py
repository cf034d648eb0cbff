"""The model writes: next tokens one after the other with a key-value cache, and how each is chosen."""
