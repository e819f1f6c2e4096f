"""Several uploads at once: numbers stay unique, parts stay whole."""

import hashlib
from functools import partial

from django.core.files.uploadedfile import SimpleUploadedFile

from tests import onnx_models
from tests.publishing import Publishing, onnx_bytes
from tests.webapp.at_once import at_once
from tests.webapp.uploads.parts import PART, part_of, start
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.services import upload_complete, version_create
from webapp.jobs.models import Job
from webapp.uploads.models import Upload
from webapp.uploads.services import Details, upload_part, upload_receive

MODEL = onnx_bytes(onnx_models.mlp())


def test_versions_uploaded_at_once_get_different_numbers(publishing: Publishing) -> None:
    olga = publishing.world.olga
    model = InferenceModel.objects.create(name="m")

    def one() -> None:
        upload = upload_receive(
            model_name="m",
            file=SimpleUploadedFile("model.onnx", MODEL),
            samples=None,
            actor=olga,
            details=Details(file_name="model.onnx"),
        )
        version_create(model=model, upload=upload, actor=olga)

    at_once([one] * 8)
    numbers = sorted(ModelVersion.objects.values_list("number", flat=True))
    assert numbers == list(range(1, 9))
    for job in Job.objects.all():
        publishing.check({"id": job.id, "target": job.target})
    assert ModelVersion.objects.filter(state="READY").count() == 8
    assert len(publishing.published()) == 8


def test_the_same_part_sent_twice_at_once_is_one_whole_part(publishing: Publishing) -> None:
    content = bytes(range(256)) * 3000
    row = start(publishing.world.api_client(), content)
    upload = Upload.objects.get(id=row["id"])
    good = part_of(content, 1)

    def send(body: bytes) -> None:
        upload_part(upload=upload, number=1, source=_Source(body))

    bodies = [*(bytes([number]) * PART for number in range(6)), good, good]
    at_once([partial(send, body) for body in bodies])
    payload = publishing.home / "uploads" / upload.id / "payload"
    with payload.open("rb") as file:
        on_disk = hashlib.sha256(file.read(PART)).hexdigest()
    assert upload.parts.get(number=1).sha256 == on_disk


def test_completing_at_once_makes_one_version(publishing: Publishing) -> None:
    row = start(publishing.world.api_client(), MODEL[:PART])
    upload = Upload.objects.get(id=row["id"])
    upload_part(upload=upload, number=1, source=_Source(MODEL[:PART]))

    def complete() -> str:
        mine = Upload.objects.get(id=upload.id)
        _, job = upload_complete(upload=mine, actor=publishing.world.olga)
        return job.id

    jobs = at_once([complete] * 6)
    assert len(jobs) == 6
    assert len(set(jobs)) == 1
    assert ModelVersion.objects.count() == 1


class _Source:
    def __init__(self, body: bytes) -> None:
        self._left = body

    def read(self, size: int) -> bytes:
        block, self._left = self._left[:size], self._left[size:]
        return block
