"""The softmax in C++ for this machine's processor: four rungs, how they are built, and the memory of their results."""
