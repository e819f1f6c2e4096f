"""What the person at the terminal sees: prefixed lines, and one block when all is up."""

import sys
from collections.abc import Sequence

from stack.process import ProcessSpec

_PREFIX_WIDTH = 12


class Console:
    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def line(self, spec: ProcessSpec, text: str) -> None:
        self._write(self._paint(f"{spec.name:<{_PREFIX_WIDTH}}│", spec.colour), text)

    def say(self, text: str) -> None:
        self._write(self._paint(f"{'switchyard':<{_PREFIX_WIDTH}}│", 1), text)

    def block(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        width = max(len(name) for name, _ in rows)
        lines = [title, "", *(f"{name:<{width}}  {value}" for name, value in rows)]
        rule = "─" * (max(len(line) for line in lines) + 2)
        print(f"\n┌{rule}┐", flush=False)
        for line in lines:
            print(f"│ {line:<{len(rule) - 2}} │", flush=False)
        print(f"└{rule}┘\n", flush=True)

    def _write(self, prefix: str, text: str) -> None:
        print(prefix, text, flush=True)

    def _paint(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text


def terminal_console() -> Console:
    return Console(colour=sys.stdout.isatty())
