"""Two configs side by side, line by line. Pure."""

import difflib
from dataclasses import dataclass
from typing import Literal

_KINDS: dict[str, Literal["same", "added", "removed"]] = {
    "  ": "same",
    "+ ": "added",
    "- ": "removed",
}


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: Literal["same", "added", "removed"]
    text: str

    @property
    def sign(self) -> str:
        return {"same": " ", "added": "+", "removed": "−"}[self.kind]

    @property
    def meaning(self) -> str:
        return {"same": "", "added": "added: ", "removed": "removed: "}[self.kind]


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Every line of both; a changed line is one removed and one added."""
    return [
        DiffLine(_KINDS[line[:2]], line[2:])
        for line in difflib.ndiff(before.splitlines(), after.splitlines())
        if line[:2] in _KINDS
    ]
