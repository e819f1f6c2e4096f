"""The words of a command line, checked against the table of options."""

import re
from collections.abc import Sequence

from inference_runtime.cli.options import BY_NAME, Kind, Option, Use


class UsageError(Exception):
    """The command line can not be meant; the text says what to change."""


_NUMBER = re.compile("-?[0-9]{1,18}")
SWITCH = {"true": True, "1": True, "false": False, "0": False}


class Arguments:
    """The options of one command line, by name."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._values: dict[str, list[str]] = {}
        rest = list(arguments)
        while rest:
            self._take(rest)
        for name, values in self._values.items():
            option = BY_NAME[name]
            if option.use is Use.REFUSED and any(v.lower() != option.default for v in values):
                raise UsageError(
                    f"--{name} is not supported by this server yet: leave it out"
                    + (f" or at {option.default}" if option.default else "")
                )

    def _take(self, rest: list[str]) -> None:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("--").partition("=")
        option = BY_NAME.get(name)
        if not argument.startswith("--") or option is None:
            raise UsageError(f'Bad option: "{argument if option is None else name}".')
        if option.kind is Kind.FLAG:
            value = value if equals else "true"
        elif not equals:
            if not rest:
                raise UsageError(f'Bad option: "--{name}". It needs a value.')
            value = rest.pop(0)
        self._check(option, value)
        self._values.setdefault(name, []).append(value)

    def _check(self, option: Option, value: str) -> None:
        if option.kind in (Kind.SWITCH, Kind.FLAG) and value.lower() not in SWITCH:
            raise UsageError(f'Bad option: "--{option.name}". Use true or false, not "{value}".')
        if option.kind is Kind.NUMBER and _NUMBER.fullmatch(value) is None:
            raise UsageError(f'Bad option: "--{option.name}". Use a whole number, not "{value}".')

    def given(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        return self._values.get(name, [BY_NAME[name].default])[-1]

    def number(self, name: str, minimum: int = 0) -> int:
        value = int(self.text(name))
        if value < minimum:
            raise UsageError(f'Bad option: "--{name}". It must be at least {minimum}.')
        return value

    def switch(self, name: str) -> bool:
        return SWITCH[self.text(name).lower() or "false"]

    def many(self, name: str) -> list[str]:
        return self._values.get(name, [])
