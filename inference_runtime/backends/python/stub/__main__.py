"""The process of one model instance: `python -m inference_runtime.backends.python.stub <JSON of descriptors>`.

The main thread executes batches, one at a time, as they come on the channel of executions.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from inference_runtime.backends.python.stub import calls, coroutines, limits
from inference_runtime.backends.python.stub.execution import BatchExecution
from inference_runtime.backends.python.stub.failures import failure_text
from inference_runtime.backends.python.stub.heartbeat import signs_of_life
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.stub.link import PROCESS, Link
from inference_runtime.backends.python.stub.loaded_model import NoModel, model_class
from inference_runtime.backends.python.stub.model_config import ModelConfig
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import ArenaReader, ArenaWriter, Unpacker
from inference_runtime.backends.python.wire.frames import Kind


class Stub:
    def __init__(self, executions: socket.socket) -> None:
        self._executions = executions
        self._sending = threading.Lock()
        self._model: Any = None

    def serve(self) -> None:
        try:
            while True:
                kind, text, payload = frames.receive(self._executions)
                if kind == Kind.EXECUTE:
                    self._execute(json.loads(text), payload)
                elif kind == Kind.START:
                    self._begin(json.loads(text))
                elif kind == Kind.COMPLETE_CONFIG:
                    self._complete_config(json.loads(text))
                    return
                else:
                    self._finalize()
                    return
        except (EOFError, OSError):
            return  # the server is gone

    def _begin(self, start: Any) -> None:
        PROCESS.phase = "initialize"
        with signs_of_life(self._answer):
            try:
                self._model = _model_class(start)()
                if hasattr(self._model, "initialize"):
                    coroutines.value(self._model.initialize(start["args"]))
                outcome: tuple[Kind, Any] = (
                    Kind.STARTED,
                    {"asks_ready": hasattr(self._model, "is_ready")},
                )
            except BaseException as error:  # noqa: BLE001  a model may raise what it likes
                outcome = Kind.FAILED, {"text": _load_failure(error)}
        PROCESS.phase = "execute"
        PROCESS.link.handlers[Kind.CHECK_READY] = self._check_ready
        self._batches = BatchExecution(self._model)
        self._answer(*outcome)

    def _complete_config(self, start: Any) -> None:
        PROCESS.phase = "auto_complete_config"
        with signs_of_life(self._answer):
            try:
                config = _completed_config(_model_class(start), start)
                outcome: tuple[Kind, Any] = Kind.STARTED, {"config": config}
            except BaseException as error:  # noqa: BLE001  a model may raise what it likes
                outcome = Kind.FAILED, {"text": _load_failure(error)}
        self._answer(*outcome)

    def _execute(self, text: Any, payload: bytearray) -> None:
        link = PROCESS.link
        link.outbound.release(text["free"])
        packer = link.packer()
        tensors = Unpacker(payload, link.inbound)
        answers = self._batches.run(text, tensors, packer)
        # The model has let go of its inputs by now, or keeps them on purpose.
        del tensors, payload
        free = link.inbound.take_released()
        body = f'{{"answers":{answers},"free":{free}}}'
        with self._sending:
            frames.send(self._executions, frames.frame(Kind.DONE, body.encode(), packer.payload))

    def _finalize(self) -> None:
        PROCESS.phase = "finalize"
        if hasattr(self._model, "finalize"):
            try:
                coroutines.value(self._model.finalize())
            except BaseException as error:  # noqa: BLE001  the unload goes on
                PROCESS.link.tell(
                    "log",
                    level="ERROR",
                    message=f"finalize of '{PROCESS.instance_name}' failed: {failure_text(error)}",
                    file=PROCESS.model_file,
                    line=0,
                )

    def _check_ready(self, text: Any, _: Unpacker) -> None:
        threading.Thread(target=self._answer_ready, args=(text["id"],), daemon=True).start()

    def _answer_ready(self, number: int) -> None:
        answer: dict[str, Any] = {"id": number}
        try:
            ready = coroutines.value(self._model.is_ready())
            if isinstance(ready, bool):
                answer["ready"] = ready
            else:
                answer["error"] = "is_ready() must return a boolean value"
        except BaseException as error:  # noqa: BLE001  a model may raise what it likes
            answer["error"] = failure_text(error)
        PROCESS.link.post(Kind.READY_ANSWER, answer)

    def _answer(self, kind: Kind, text: Any) -> None:
        with self._sending:
            frames.send(self._executions, frames.frame(kind, dumps(text).encode()))


def _model_class(start: Any) -> Any:
    PROCESS.model_name = start["model_name"]
    PROCESS.instance_name = start["instance_name"]
    PROCESS.model_file = start["file"]
    PROCESS.version_directory = start["version_directory"]
    PROCESS.decoupled = start["decoupled"]
    return model_class(
        Path(start["file"]), Path(start["version_directory"]), Path(start["model_directory"])
    )


def _completed_config(model: Any, start: Any) -> Any:
    """None: the model has nothing to say."""
    function = getattr(model, "auto_complete_config", None)
    if function is None:
        return None
    completed = function(ModelConfig(start["config"]))
    if not isinstance(completed, ModelConfig):
        raise NoModel(
            f"auto_complete_config function in model '{start['model_name']}' must return a valid "
            "pb.ModelConfig object."
        )
    config = completed.as_dict()
    dumps(config)  # raises for what a config can not hold, while the model can still be told
    return config


def _load_failure(error: BaseException) -> str:
    return str(error) if isinstance(error, NoModel) else failure_text(error)


def _forget_the_server(root: str) -> None:
    """The model's imports are its own: nothing of the server's directory is found by chance."""
    sys.path[:] = [entry for entry in sys.path if entry not in ("", root, str(Path.cwd()))]


def main() -> None:
    faulthandler.enable()
    given = json.loads(sys.argv[1])
    limits.die_with(given["lifeline"])
    limits.be_the_first_to_go()
    limits.leave_signals_to_the_server()
    _forget_the_server(given["root"])
    size = given["arena_size"]
    inbound, outbound = ArenaReader(given["inbound"], size), ArenaWriter(given["outbound"], size)
    for fd in (given["inbound"], given["outbound"]):
        os.close(fd)
    PROCESS.link = Link(socket.socket(fileno=given["side"]), inbound, outbound)
    PROCESS.link.handlers[Kind.CALL_ANSWER] = calls.answered
    limits.limit(given["limits"])
    PROCESS.link.listen()
    Stub(socket.socket(fileno=given["executions"])).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the model, and what they wait for, are nobody's concern any more


if __name__ == "__main__":
    main()
