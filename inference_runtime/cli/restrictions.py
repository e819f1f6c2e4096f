"""`--http-restricted-api` and `--grpc-restricted-protocol`: groups of categories and their header."""

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.frontends.restrictions import (
    CATEGORIES,
    GRPC_PREFIX,
    RequiredHeader,
    Restrictions,
)


def http_restrictions(given: Arguments) -> Restrictions:
    return _read(given, "http-restricted-api", "api", "")


def grpc_restrictions(given: Arguments) -> Restrictions:
    return _read(given, "grpc-restricted-protocol", "protocol", GRPC_PREFIX)


def _read(given: Arguments, option: str, noun: str, prefix: str) -> Restrictions:
    """Of `<category>[,<category>…]:<header>=<value>`, repeated."""
    found: dict[str, RequiredHeader] = {}
    for group in given.many(option):
        categories, _, pair = group.partition(":")
        header, equals, value = pair.partition("=")
        if not (equals and header and value):
            raise UsageError(
                f'Bad option: "--{option}". Use <category>[,<category>]:<header>=<value>, '
                f'not "{group}".'
            )
        for category in categories.split(","):
            if category not in CATEGORIES:
                raise UsageError(f"unknown restricted {noun} '{category}'")
            if category in found:
                raise UsageError(
                    f"restricted {noun} '{category}' can not be specified in multiple config groups"
                )
            found[category] = RequiredHeader(prefix + header, value)
    return found
