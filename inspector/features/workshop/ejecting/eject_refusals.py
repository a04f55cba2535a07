"""Why a kernel cannot be ejected."""


class RefusalError(Exception):
    """A kernel that cannot become a package: one line says why, the next what to do instead."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead


SEE_DUMP = "ctrace kernels --dump DIR writes it as it is, as a file that runs"
