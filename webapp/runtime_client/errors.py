"""What can go wrong with a call to a runtime.

RuntimeProblem
├── RuntimeUnreachable   no answer: wrong address, down, too slow, connection cut
├── RuntimeRefused       it answered "no"; `text` is its own sentence, `status` the HTTP meaning
└── RuntimeLacks         it does not have the protocol extension the call needs
"""


class RuntimeProblem(Exception):
    """`text` is fit to be shown to a person."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class RuntimeUnreachable(RuntimeProblem):
    pass


class RuntimeRefused(RuntimeProblem):
    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RuntimeLacks(RuntimeProblem):
    def __init__(self, extension: str) -> None:
        super().__init__(f"this runtime does not have the protocol extension '{extension}'")
        self.extension = extension
