"""The data plane: a KServe v2 server that Triton's clients cannot tell from Triton."""

__version__ = "0.1.0"
