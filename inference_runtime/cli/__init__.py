"""The command line: tritonserver's options and our own `--switchyard-*`, as RuntimeSettings."""

from inference_runtime.cli.arguments import UsageError
from inference_runtime.cli.options import OPTIONS, usage
from inference_runtime.cli.parse import parse

__all__ = ["OPTIONS", "UsageError", "parse", "usage"]
