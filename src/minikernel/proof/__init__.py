"""Is a kernel right: cases, accuracy, redzones, a compile check without a GPU.

It knows float64's answer and how far each dtype may be from it. It does not know how a kernel computes, nor how fast.
"""
