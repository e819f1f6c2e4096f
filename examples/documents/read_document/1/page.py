"""Pictures and arrays around the three models: what goes in, and what their outputs mean.

Lines of text are taken to be upright or upside down, not slanted.
"""

import io

import numpy as np
from PIL import Image
from scipy import ndimage

MOST_PIXELS = 20_000_000
_SHORT_SIDE = 736
_LONG_SIDE = 2048
_LINE_HEIGHT = 48


def picture(data: bytes) -> Image.Image:
    """Raises ValueError for what is no picture, and for one that is too large to read."""
    try:
        found = Image.open(io.BytesIO(data))
        if found.width * found.height > MOST_PIXELS:
            raise ValueError(f"the picture has more than {MOST_PIXELS} pixels")
        return found.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as problem:
        raise ValueError("image must be a picture file, such as PNG or JPEG") from problem


def whole(page: Image.Image) -> np.ndarray:
    """The page for the detector: [1, 3, height, width], both a multiple of 32."""
    scale = max(1.0, _SHORT_SIDE / min(page.size))
    scale = min(scale, _LONG_SIDE / max(page.size))
    width, height = (max(32, round(side * scale / 32) * 32) for side in page.size)
    return _normal(page.resize((width, height)))[None]


def boxes(likelihood: np.ndarray, page: Image.Image) -> np.ndarray:
    """Left, top, right and bottom of each line of text, in the page's pixels, from top to bottom.

    The detector marks the core of a line; its box is wider by a share of the core's height.
    """
    regions, _count = ndimage.label(likelihood > 0.3)
    scale = np.array(page.size * 2) / (likelihood.shape[::-1] * 2)
    found = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(regions), start=1):
        core = likelihood[rows, columns][regions[rows, columns] == number]
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if min(height, width) < 3 or core.mean() < 0.5:
            continue
        wider = 1.6 * height * width / (2 * (height + width))
        corners = (
            columns.start - wider,
            rows.start - wider,
            columns.stop + wider,
            rows.stop + wider,
        )
        found.append(np.clip(np.round(corners * scale), 0, page.size * 2))
    found.sort(key=lambda box: (box[1] + box[3], box[0]))
    return np.array(found, np.float32).reshape(-1, 4)


def cut(page: Image.Image, box: np.ndarray) -> Image.Image:
    return page.crop(tuple(int(side) for side in box))


def for_direction(lines: list[Image.Image]) -> np.ndarray:
    """[n, 3, 48, 192]: the beginnings of the lines, which must not be squeezed."""
    beginnings = (
        line.crop((0, 0, min(line.width, 4 * line.height), line.height)) for line in lines
    )
    return np.stack([_padded(_strip(each, longest=192), 192) for each in beginnings])


def upside_down(likelihoods: np.ndarray) -> bool:
    """By all lines together: a page is printed one way, and single lines may mislead."""
    return float(likelihoods[:, 1].mean()) > 0.5


def for_recognition(lines: list[Image.Image]) -> np.ndarray:
    """[n, 3, 48, width]: as wide as the longest line."""
    strips = [_strip(line, longest=_LONG_SIDE) for line in lines]
    widest = max(strip.shape[2] for strip in strips)
    return np.stack([_padded(strip, widest) for strip in strips])


def text(likelihoods: np.ndarray, characters: list[str]) -> tuple[str, float]:
    """What a line says, and how sure that is: the best character of each step, repeats and blanks left out."""
    best = likelihoods.argmax(1)
    first = np.ones(len(best), bool)
    first[1:] = best[1:] != best[:-1]
    kept = np.flatnonzero(first & (best != 0))
    if not len(kept):
        return "", 0.0
    return "".join(characters[best[step]] for step in kept), float(likelihoods[kept].max(1).mean())


def _strip(line: Image.Image, longest: int) -> np.ndarray:
    width = -(-line.width * _LINE_HEIGHT // line.height)
    size = (min(max(width, 8), longest), _LINE_HEIGHT)
    return _normal(line.resize(size, Image.Resampling.BILINEAR))


def _padded(strip: np.ndarray, width: int) -> np.ndarray:
    return np.pad(strip, ((0, 0), (0, 0), (0, width - strip.shape[2])))


def _normal(picture: Image.Image) -> np.ndarray:
    """[3, height, width] in -1 … 1, blue first as the models were trained."""
    pixels = np.asarray(picture, np.float32)[:, :, ::-1].transpose(2, 0, 1)
    return np.ascontiguousarray(pixels / 127.5 - 1)
