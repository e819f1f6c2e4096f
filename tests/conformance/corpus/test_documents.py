"""Pages through a Python model that calls three others: lines found, turned and read."""

import importlib.util
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from tritonclient.utils import InferenceServerException

from tests.conformance.corpus.example_server import session, strings

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
SCANNED = [
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
    "markers = np.zeros_like(coins)",
]
PRINTED = ["Hello World 2026", "Invoice No. 48213", "TOTAL: $1,234.56", "The quick brown fox"]


@pytest.fixture(scope="module")
def scan(corpus):
    return corpus.picture_path("page.png").read_bytes()


@pytest.fixture(scope="module")
def direct(world, corpus, scan):
    """Texts, boxes and confidence of the scanned page, by ONNX Runtime and the example's arithmetic."""
    file = world.file("read_document", "1", "page.py")
    spec = importlib.util.spec_from_file_location("page", file)
    assert spec is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    models = {name: session(file) for name, file in corpus.readers.items()}
    listed = models["text_recognition"].get_modelmeta().custom_metadata_map["character"]
    characters = ["", *listed.splitlines(), " "]
    picture = page.picture(scan)
    likelihood = models["text_detection"].run(None, {"x": page.whole(picture)})[0]
    boxes = page.boxes(likelihood[0, 0], picture)
    lines = [page.cut(picture, box) for box in boxes]
    groups = [page.for_recognition(lines[at : at + 4]) for at in range(0, len(lines), 4)]
    found = [
        page.text(line, characters)
        for group in groups
        for line in models["text_recognition"].run(None, {"x": group})[0]
    ]
    return [text for text, _ in found], boxes, [sure for _, sure in found]


@pytest.fixture
def client_kind():
    return "grpc"


def printed() -> Image.Image:
    page = Image.new("RGB", (480, 80 * len(PRINTED)), "white")
    for number, line in enumerate(PRINTED):
        place = (20, 20 + 80 * number)
        ImageDraw.Draw(page).text(place, line, font=ImageFont.load_default(40), fill="black")
    return page


def png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def read(client, file: bytes):
    result = client.ask("read_document", {"image": strings(file)})
    lines = [line.decode() for line in result.as_numpy("text")]
    return lines, result.as_numpy("box"), result.as_numpy("confidence")


@pytest.mark.parametrize("client_kind", ["http", "grpc"])
def test_a_scanned_page_is_read_as_by_the_models_asked_directly(client, direct, scan):
    lines, boxes, confidence = read(client, scan)
    texts, places, sure = direct
    assert lines == texts == SCANNED
    assert (boxes == places).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert (np.diff(boxes[:, 1]) > 0).all()  # from top to bottom
    assert confidence.min() > 0.9
    assert np.abs(confidence - sure).max() < 1e-5


@pytest.mark.parametrize("turn", [0, 180])
def test_a_printed_page_is_read_whichever_way_it_lies(client, turn):
    assert read(client, png(printed().rotate(turn)))[0] == PRINTED


def test_pages_at_the_same_time_do_not_mix(client, scan):
    files = [scan, png(printed()), png(printed().rotate(180))]
    with ThreadPoolExecutor(3) as pool:
        found = [answer[0] for answer in pool.map(lambda file: read(client, file), files)]
    assert found == [SCANNED, PRINTED, PRINTED]


def test_an_empty_page_has_no_lines(client):
    lines, boxes, confidence = read(client, png(Image.new("L", (300, 200), 255)))
    assert (lines, boxes.shape, confidence.shape) == ([], (0, 4), (0,))


@pytest.mark.parametrize("file", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_said(client, file):
    with pytest.raises(InferenceServerException, match="must be a picture file"):
        read(client, file)


def test_a_picture_that_is_too_large_is_refused_before_it_is_unpacked(client):
    with pytest.raises(InferenceServerException, match="more than 20000000 pixels"):
        read(client, png(Image.new("1", (5001, 4000))))
