"""The compliance checklist as a page: every numbered check and the tests named after it.

`python -m tests.conformance.checklist` writes the list into docs/compatibility.md. The numbers are those of the
checklists the runtime is built to: 200 of the protocol, and of the backends 52 of Python and 16 of ONNX Runtime.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- checks: begin -->", "<!-- checks: end -->"
SECTIONS = {
    "check": (
        (20, "Health, metadata, routing"),
        (58, "HTTP inference"),
        (68, "Validation"),
        (89, "gRPC"),
        (100, "Generate"),
        (110, "Shared memory"),
        (123, "Configuration and auto-completion"),
        (136, "Dynamic batching, queues, priorities"),
        (151, "Sequences and state"),
        (162, "Ensembles, rate limiter, cache"),
        (181, "Model management"),
        (200, "Statistics, metrics, trace, logging"),
    ),
    "backend": ((52, "Python backend"), (68, "ONNX Runtime backend")),
}
_NAME = re.compile(r"test_(check|backend)_(\d{3})_(\w+)")

Found = Mapping[tuple[str, int], list[tuple[str, str]]]


def collect() -> Found:
    """(kind, number) → (what the test says, file), in the order of the files."""
    found: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _functions(path):
            match = _NAME.fullmatch(name)
            if match:
                words = match[3].replace("_", " ")
                found[match[1], int(match[2])].append((words, path.stem))
    return found


def _functions(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def missing(found: Found) -> list[str]:
    return [
        f"{kind} {number:03d}"
        for kind, sections in SECTIONS.items()
        for number in range(1, sections[-1][0] + 1)
        if (kind, number) not in found
    ]


def page(found: Found) -> str:
    lines = []
    for kind, sections in SECTIONS.items():
        first = 1
        for last, title in sections:
            lines += [f"### {title}", "", "| check | what is tested | in |", "|---|---|---|"]
            for number in range(first, last + 1):
                tests = found.get((kind, number))
                if tests is None:
                    lines.append(f"| {number} | **no test yet** | |")
                    continue
                words = "; ".join(dict.fromkeys(words for words, _ in tests))
                files = ", ".join(dict.fromkeys(f"`{file}`" for _, file in tests))
                lines.append(f"| {number} | {words} | {files} |")
            lines.append("")
            first = last + 1
    return "\n".join(lines)


def written(text: str, content: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def main() -> None:
    found = collect()
    PAGE.write_text(written(PAGE.read_text(), page(found)))
    print(f"{len(found)} checks have tests; without: {', '.join(missing(found)) or 'none'}")


if __name__ == "__main__":
    main()
