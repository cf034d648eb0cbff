"""Put failures of the machine, such as a full disk or no memory left, into one sentence each."""

import errno

OF_THE_DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EROFS: "the folder cannot be written",
    errno.EACCES: "a file may not be read or written",
    errno.EFBIG: "a file would be larger than this shell allows (`ulimit -f`)",
    errno.EMFILE: "more files would be open than this shell allows (`ulimit -n`)",
    errno.EAGAIN: "more processes would run than this shell allows (`ulimit -u`)",
}


def sentence_about(error: BaseException) -> str | None:
    """Write the sentence that tells the user about a failure of the machine; None for any other exception.

    CuPy and torch each have an exception of their own for a GPU without memory; they are known by name, so that
    neither is imported.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        where = "this machine" if type(error) is MemoryError else "the GPU"
        details = str(error).strip().partition("\n")[0] or "no details"
        return (
            f"{where} has no memory left ({details}); end what else uses it (on a GPU `nvidia-smi` lists it), or make "
            "the shapes in config.yaml smaller."
        )
    if isinstance(error, OSError) and error.errno in OF_THE_DISK:
        place = f" at {error.filename}" if error.filename else ""
        return (
            f"{OF_THE_DISK[error.errno]}{place} ({error.strerror}); nothing half-written is left, so mend that and run "
            "the same command again."
        )
    return None
