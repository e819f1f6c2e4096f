"""Model repositories from `examples/`, which holds configs and Python models, and the corpus, which has the rest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx

from stack.corpus.models import Corpus
from stack.settings import ROOT

_SOURCES = ROOT / "examples"


def lay_out(name: str, corpus: Corpus, repository: Path) -> list[str]:
    """Puts the models of an example into the repository, and returns their names.

    Large files are links to the corpus where the file system allows it.
    """
    models = sorted(path.name for path in (_SOURCES / name).iterdir() if path.is_dir())
    for model in models:
        shutil.copytree(_SOURCES / name / model, repository / model, dirs_exist_ok=True)
        (repository / model / "1").mkdir(exist_ok=True)
    _FILES[name](corpus, repository)
    return models


def _sentences(corpus: Corpus, repository: Path) -> None:
    _place(corpus.sentence_tokenizer, repository / "tokenizer" / "1" / "tokenizer.json")
    _place(corpus.minilm.file, repository / "minilm" / "1" / "model.onnx")


def _documents(corpus: Corpus, repository: Path) -> None:
    for model, file in corpus.readers.items():
        _place(file, repository / model / "1" / "model.onnx")
    facts = onnx.load(str(corpus.readers["text_recognition"])).metadata_props
    characters = next(fact.value for fact in facts if fact.key == "character")
    (repository / "read_document" / "1" / "characters.txt").write_text(characters, "utf-8")


def _chat(corpus: Corpus, repository: Path) -> None:
    folder = corpus.smollm2
    for file in ("model.onnx", "weights.bin"):
        _place(folder / file, repository / "smollm2" / "1" / "model.onnx" / file)
    _place(folder / "tokenizer.json", repository / "chat" / "1" / "tokenizer.json")


def _penguins(corpus: Corpus, repository: Path) -> None:
    _place(corpus.penguins.file, repository / "penguins" / "1" / "model.onnx")


def _voice(corpus: Corpus, repository: Path) -> None:
    _place(corpus.voice.file, repository / "voice_activity" / "1" / "model.onnx")


_FILES: dict[str, Callable[[Corpus, Path], None]] = {
    "chat": _chat,
    "documents": _documents,
    "penguins": _penguins,
    "sentences": _sentences,
    "voice": _voice,
}
NAMES = tuple(_FILES)


def _place(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another file system
        shutil.copy(file, target)
