// A kernel that does nothing: what a launch costs when there is nothing to do.
extern "C" __global__ void nothing() {}
