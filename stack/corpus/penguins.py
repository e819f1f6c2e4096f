"""Penguins of the Palmer archipelago (Gorman 2014; Horst 2020): species from four measures and two words."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS = ("island", "sex")
MEASURES = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")


@dataclass(frozen=True)
class Birds:
    """One row per bird; words as text, measures as FP32."""

    columns: dict[str, NDArray[Any]]
    species: NDArray[Any]

    def __getitem__(self, rows: NDArray[Any]) -> "Birds":
        return Birds({k: v[rows] for k, v in self.columns.items()}, self.species[rows])

    @property
    def table(self) -> NDArray[Any]:
        return np.hstack([self.columns[name].astype(object) for name in (*WORDS, *MEASURES)])


def read(table: Path) -> tuple[Birds, Birds]:
    """The birds to learn from, and those held out; birds with a gap are in neither."""
    from sklearn.model_selection import train_test_split

    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if "NA" not in row.values()]
    columns: dict[str, NDArray[Any]] = {
        name: np.array([[row[name]] for row in rows], object) for name in WORDS
    }
    columns |= {name: np.array([[row[name]] for row in rows], np.float32) for name in MEASURES}
    birds = Birds(columns, np.array([row["species"] for row in rows], object))
    learn, held_out = train_test_split(
        np.arange(len(rows)), test_size=0.25, random_state=0, stratify=birds.species
    )
    return birds[learn], birds[held_out]


def build(birds: Birds, target: Path) -> None:
    """Learns from the birds and writes the pipeline as ONNX."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words, measures = range(len(WORDS)), range(len(WORDS), len(WORDS) + len(MEASURES))
    pipeline = make_pipeline(
        ColumnTransformer(
            [
                ("words", OneHotEncoder(handle_unknown="ignore"), list(words)),
                ("measures", StandardScaler(), list(measures)),
            ]
        ),
        LogisticRegression(max_iter=2000),
    )
    pipeline.fit(birds.table, birds.species)
    model = convert_sklearn(
        pipeline,
        initial_types=[
            *((name, StringTensorType([None, 1])) for name in WORDS),
            *((name, FloatTensorType([None, 1])) for name in MEASURES),
        ],
        options={id(pipeline): {"zipmap": False}},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )
    staged = target.with_suffix(".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(model.SerializeToString())
    staged.rename(target)
