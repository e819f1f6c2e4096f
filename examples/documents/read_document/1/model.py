"""Reads a page: finds the lines, sees which way up they are, reads them; three models called from one.

Needs `pillow` and `scipy` in the model's environment, and `characters.txt` beside this file.
"""

import asyncio
from pathlib import Path

import numpy as np
import page
import triton_python_backend_utils as pb_utils

MOST_LINES = 256
# The recogniser gives 75 kB per step of a line: few lines at once keep answers small.
LINES_AT_ONCE = 4


class TritonPythonModel:
    def initialize(self, args):
        listed = (Path(__file__).parent / "characters.txt").read_text("utf-8")
        self.characters = ["", *listed.splitlines(), " "]  # the first stands for "no new character"

    async def execute(self, requests):
        return await asyncio.gather(*(self.answer(request) for request in requests))

    async def answer(self, request):
        data = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()[0]
        try:
            return response(*await self.read(page.picture(data)))
        except ValueError as problem:
            error = pb_utils.TritonError(str(problem), pb_utils.TritonError.INVALID_ARG)
        except CallFailed as failed:
            error = failed.error
        return pb_utils.InferenceResponse(error=error)

    async def read(self, picture):
        likelihood = await call("text_detection", page.whole(picture))
        boxes = page.boxes(likelihood[0, 0], picture)[:MOST_LINES]
        if not len(boxes):
            return boxes, []
        lines = [page.cut(picture, box) for box in boxes]
        if page.upside_down(await call("text_direction", page.for_direction(lines))):
            boxes, lines = boxes[::-1], [line.rotate(180) for line in reversed(lines)]
        groups = [lines[at : at + LINES_AT_ONCE] for at in range(0, len(lines), LINES_AT_ONCE)]
        calls = (call("text_recognition", page.for_recognition(group)) for group in groups)
        read = [
            page.text(line, self.characters)
            for group in await asyncio.gather(*calls)
            for line in group
        ]
        return boxes, read


class CallFailed(Exception):
    def __init__(self, error):
        super().__init__(error.message())
        self.error = error


OUTPUTS = {
    "text_detection": "fetch_name_0",
    "text_direction": "save_infer_model/scale_0.tmp_1",
    "text_recognition": "fetch_name_0",
}


async def call(model, x):
    """The one output of a model for its one input."""
    output = OUTPUTS[model]
    request = pb_utils.InferenceRequest(
        model_name=model, inputs=[pb_utils.Tensor("x", x)], requested_output_names=[output]
    )
    answer = await request.async_exec()
    if answer.has_error():
        raise CallFailed(answer.error())
    return pb_utils.get_output_tensor_by_name(answer, output).as_numpy()


def response(boxes, read):
    tensors = {
        "text": np.array([text.encode() for text, _ in read], np.object_),
        "box": boxes,
        "confidence": np.array([confidence for _, confidence in read], np.float32),
    }
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])
