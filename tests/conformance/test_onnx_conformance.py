"""What ONNX Runtime answers is what clients get, bit for bit, over JSON, binary HTTP and gRPC."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.onnx_cases import Case, Exchange, all_cases, exchanges, node_cases_of
from tests.conformance.onnx_doors import DOORS, Door, Refused, as_clients_see, difference
from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.onnx_models import ONNX_TYPES, write_model

pytestmark = pytest.mark.conformance

GROUPS = 12
LEAST_IN_SCOPE = (
    1690  # of the wheel's 1,831 cases of plain tensors; the others ONNX Runtime does not run
)
WITHOUT_JSON = {"FP16", "BF16"}  # the protocol has no text form for them
LOADS_AT_ONCE = 4

# The modules of the wheel that the quick choice is made from: all datatypes, strings, scalars, empties.
QUICK_MODULES = (
    "ai_onnx_ml.label_encoder", "cast", "compress", "constant", "einsum", "identity", "isinf", "layernormalization",
    "max", "mean", "mod", "optionalhaselement", "rangeop", "regex_full_match", "reshape", "shape", "split",
    "string_concat", "string_split", "topk", "unique", "where",
)  # fmt: skip
QUICK_PER_FEATURE = 3


@dataclass
class Yard:
    """A server and the repository it reads."""

    server: RuntimeProcess
    repository: Path

    def load(self, cases: Iterable[Case]) -> dict[str, str]:
        """By case: why it did not load."""
        with ThreadPoolExecutor(LOADS_AT_ONCE) as pool:
            problems = list(pool.map(self._load, cases))
        return dict(problem for problem in problems if problem)

    def _load(self, case: Case) -> tuple[str, str] | None:
        write_model(self.repository, case.name, case.model)
        status, answer = self.server.call("POST", f"/v2/repository/models/{case.name}/load")
        return None if status == 200 else (case.name, f"load: {answer}")

    def unload(self, cases: Iterable[Case]) -> None:
        for case in cases:
            self.server.call("POST", f"/v2/repository/models/{case.name}/unload")


@pytest.fixture(scope="module")
def yard(tmp_path_factory) -> Iterator[Yard]:
    repository = tmp_path_factory.mktemp("repository")
    with runtime(repository, tmp_path_factory.mktemp("log") / "runtime.log") as server:
        yield Yard(server, repository)


@pytest.fixture(scope="module")
def doors(yard) -> Iterator[dict[str, Door]]:
    opened = {name: door(yard.server) for name, door in DOORS.items()}
    yield opened
    for door in opened.values():
        door.close()


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(all_cases())


def check(yard: Yard, doors: dict[str, Door], cases: list[Case]) -> int:
    """Asks every case at every door; how many were in scope."""
    asked = {case.name: exchanges(case) for case in cases}
    in_scope = [case for case in cases if asked[case.name]]
    problems = yard.load(in_scope)
    for case in in_scope:
        if case.name not in problems:
            found = [
                f"{name}: {problem}"
                for exchange in asked[case.name]
                for name, door in doors.items()
                if (problem := ask(name, door, exchange))
            ]
            problems.update({case.name: "; ".join(found)} if found else {})
    yard.unload(in_scope)
    assert not problems, "\n".join(f"{name}: {text}" for name, text in problems.items())
    return len(in_scope)


def ask(name: str, door: Door, exchange: Exchange) -> str:
    """What was wrong with the answer, if anything was."""
    case = exchange.case
    given = {key: as_clients_see(array) for key, array in exchange.given.items()}
    refusal = _json_refusal(case) if name == "json" else ""
    try:
        answer = door.ask(case, given)
    except (Refused, InferenceServerException) as error:
        return "" if refusal and refusal in str(error) else str(error)
    if refusal:
        return "a type without a JSON form was not refused"
    found = {
        key: difference(answer.get(key), as_clients_see(expected))
        for key, expected in exchange.expected.items()
    }
    return ", ".join(f"{key} is {problem}" for key, problem in found.items() if problem)


def _json_refusal(case: Case) -> str:
    for verb, ports in (("receiving", case.inputs), ("sending", case.outputs)):
        for port in ports:
            if port.datatype in WITHOUT_JSON:
                return f"400 {verb} {port.datatype} data via JSON is not supported"
    return ""


def quick_choice(cases: Iterable[Case]) -> list[Case]:
    """The first few cases by name of everything that sets cases apart, and all that handle strings."""
    seen: dict[Hashable, int] = defaultdict(int)
    chosen = []
    for case in cases:
        new = {feature for feature in _features(case) if seen[feature] < QUICK_PER_FEATURE}
        if (new or "BYTES" in case.datatypes) and exchanges(case):
            chosen.append(case)
            for feature in new:
                seen[feature] += 1
    return chosen


def _features(case: Case) -> set[Hashable]:
    features: set[Hashable] = {("inputs", len(case.inputs)), ("outputs", len(case.outputs))}
    for kind, ports in (("input", case.inputs), ("output", case.outputs)):
        for port in ports:
            features |= {(kind, port.datatype), (kind, len(port.shape)), (kind, 0 in port.shape)}
    return features


def test_a_choice_of_cases_gives_what_onnx_runtime_gives(yard, doors):
    choice = quick_choice(node_cases_of(QUICK_MODULES))
    assert {datatype for case in choice for datatype in case.datatypes} == set(ONNX_TYPES)
    assert check(yard, doors, choice) == len(choice) >= 60


@pytest.mark.slow
@pytest.mark.timeout(300)  # whoever comes first makes the cases
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_case_gives_what_onnx_runtime_gives(yard, doors, cases, group):
    assert check(yard, doors, cases[group::GROUPS]) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_most_cases_of_the_wheel_are_in_scope(cases):
    assert sum(1 for case in cases if exchanges(case)) >= LEAST_IN_SCOPE
