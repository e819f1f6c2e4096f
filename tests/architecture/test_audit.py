"""Whoever changes something says so: services that name an actor or write a state reach the audit log.

Followed through the calls in the source, so a row that some branch forgets is not found here; the
tests of each app look at the rows themselves.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = "webapp.audit.services.audit_record"
SILENT = {
    "webapp.catalog.services.registry.model_delete_check": "changes nothing",
    "webapp.rollouts.services.moves._close_analysis": "the row of the move that ends the step tells",
    "webapp.uploads.services.upload_receive": "version.create tells of it, in the same request",
    "webapp.uploads.services.upload_finish": "version.create tells of it, in the same transaction",
}
# An operation is a record itself; what it changes is audited where it is changed.
RECORDS_THEMSELVES = ("webapp.jobs.services.job_request", "webapp.jobs.services.job_claim",
    "webapp.jobs.services.job_release", "webapp.jobs.services._requeue",
    "webapp.jobs.services._end_outside", "webapp.jobs.services._settle")  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {
    _module(path): ast.parse(path.read_text())
    for path in (ROOT / "webapp").rglob("*.py")
    if "migrations" not in path.parts
}
FUNCTIONS: dict[str, Function] = {
    f"{module}.{node.name}": node
    for module, tree in TREES.items()
    for node in tree.body
    if isinstance(node, Function)
}
IMPORTS: dict[str, dict[str, str]] = {
    module: {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for module, tree in TREES.items()
}


def _origin(name: str) -> str:
    """Where a name is defined, through the packages that only pass it on."""
    module, _, short = name.rpartition(".")
    while name not in FUNCTIONS and short in IMPORTS.get(module, {}):
        name = IMPORTS[module][short]
        module, _, short = name.rpartition(".")
    return name


def _calls(name: str) -> Iterator[str]:
    module = name.rpartition(".")[0]
    known = IMPORTS[module]
    for node in ast.walk(FUNCTIONS[name]):
        match node:
            case ast.Call(func=ast.Name(id=called)):
                yield _origin(known.get(called, f"{module}.{called}"))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=called)):
                if owner in known:
                    yield _origin(f"{known[owner]}.{called}")


@cache
def _reached(name: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for called in _calls(waiting.pop()):
            if called not in seen:
                seen.add(called)
                if called in FUNCTIONS:
                    waiting.append(called)
    return frozenset(seen)


def _services() -> Iterator[tuple[str, Function]]:
    for name, function in FUNCTIONS.items():
        if name.split(".")[2:3] == ["services"] and name != RECORD:
            yield name, function


def _names_actor(function: Function) -> bool:
    return any(argument.arg == "actor" for argument in function.args.kwonlyargs)


def _writes_state(function: Function) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="update"), keywords=keywords):
                if any(keyword.arg == "state" for keyword in keywords):
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="state")]):
                return True
    return False


CHANGING = sorted(
    name
    for name, function in _services()
    if (_names_actor(function) and not function.name.startswith("_")) or _writes_state(function)
)


@pytest.mark.parametrize("name", [one for one in CHANGING if one not in RECORDS_THEMSELVES])
def test_a_service_that_changes_something_reaches_the_audit_log(name: str) -> None:
    assert (RECORD in _reached(name)) != (name in SILENT)


def test_the_calls_are_followed_at_all() -> None:
    assert len(CHANGING) > 40
    assert set(SILENT) | set(RECORDS_THEMSELVES) <= set(FUNCTIONS)
    assert RECORD in _reached("webapp.rollouts.services.actions.rollout_abort")
    assert RECORD not in _reached("webapp.audit.selectors.audit_list")
