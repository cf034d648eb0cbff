"""The compiler laid open: safe torch.compile, lowering capture, annotation. Nothing of it is built yet."""
