"""The two checks that compare: the config with the model, and the model with the one in production."""

from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed, skipped, warned
from webapp.catalog.validation import config_problems, contract_changes


def config_fit(subject: Subject) -> Outcome:
    if subject.config is None:
        return skipped("There is no config.pbtxt to compare.")
    problems = config_problems(subject.config, subject.inputs, subject.outputs)
    hard = [problem for problem in problems if problem.hard]
    if hard:
        raise CheckFailed(" ".join(problem.detail for problem in hard[:5]), hard[0].fix)
    if problems:
        return warned(" ".join(problem.detail for problem in problems[:5]), problems[0].fix)
    return passed("Names, datatypes and shapes agree.")


def contract(subject: Subject) -> Outcome:
    production = subject.assignment.production
    if production is None:
        return skipped("No version is in production yet, so no client can notice a change.")
    changes = contract_changes(
        before=(production.inputs, production.outputs),
        after=(subject.inputs, subject.outputs),
    )
    if not changes:
        return passed(f"Inputs and outputs are those of version {production.version}.")
    return warned(
        f"Against version {production.version} in production: {' '.join(changes[:8])}",
        "Tell the clients first, or publish it as another model; traffic would fail for them.",
    )
