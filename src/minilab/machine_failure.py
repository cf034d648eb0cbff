"""Put failures of the machine, such as a full disk or no memory left, into one sentence each."""

import errno

OF_THE_DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "a file may not become as large as this one (`ulimit -f` says how large)",
    errno.EROFS: "the folder cannot be written",
    errno.EACCES: "a file may not be read or written",
    errno.ENOTDIR: "a file lies where a folder is needed",
    errno.EEXIST: "something else lies there already",
    errno.EISDIR: "a folder lies where a file is needed",
    errno.ENAMETOOLONG: "a path is too long",
    errno.EIO: "the disk failed",
    errno.EMFILE: "this process may not open as many files (`ulimit -n` says how many)",
    errno.EAGAIN: "more processes would run than this shell allows (`ulimit -u`)",
}
AGAIN = "nothing half-written is left, so mend that and run the same command again."


def sentence_about(error: BaseException) -> str | None:
    """Write the sentence that tells the user about a failure of the machine; None for any other exception.

    CuPy and torch each have an exception of their own for a GPU without memory; they are known by name, so that
    neither is imported. Any other MemoryError, NumPy's among them, and that of torch's allocator on a CPU, which is a
    plain RuntimeError, is of this machine's memory.
    """
    details = str(error).strip().partition("\n")[0].removesuffix(".") or "no details"
    if type(error).__name__ == "OutOfMemoryError":
        return (
            f"the GPU has no memory left ({details}); end what else uses it (on a GPU `nvidia-smi` lists it), or make "
            "the shapes in config.yaml smaller."
        )
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in details):
        return (
            f"this machine has no memory left ({details}); end what else uses it, or make the shapes in config.yaml "
            "smaller."
        )
    if isinstance(error, OSError) and error.errno in OF_THE_DISK:
        place = f" at {error.filename}" if error.filename else ""
        return f"{OF_THE_DISK[error.errno]}{place} ({error.strerror}); {AGAIN}"
    return None
