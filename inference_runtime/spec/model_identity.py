"""What tells models of one name in several repositories apart: `<namespace>/<name>`, or the name alone. Pure.

A name has no slash in it, so an identity can be taken apart again. Without namespacing every identity
is a bare name.
"""


def identity(namespace: str, name: str) -> str:
    """`namespace` is the repository as the command line names it, "" where there are no namespaces."""
    return f"{namespace}/{name}" if namespace else name


def bare_name(identity: str) -> str:
    return identity.rpartition("/")[2]


def namespace_of(identity: str) -> str:
    return identity.rpartition("/")[0]
