"""Wisconsin breast cancer data (Street 1993), from scikit-learn: a table of numbers for LightGBM."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def learn(trees: int, target: Path) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any]]:
    """Held-out rows, their labels, and LightGBM's own probabilities; the model is written where it is missing."""
    import lightgbm
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    rows, labels = load_breast_cancer(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        rows.astype(np.float32), labels, test_size=0.25, random_state=0, stratify=labels
    )
    classifier = lightgbm.LGBMClassifier(
        n_estimators=trees, num_leaves=15, random_state=0, n_jobs=1, verbose=-1
    )
    classifier.fit(train, train_labels)
    if not target.exists():
        _write(classifier, target)
    return test, test_labels, np.asarray(classifier.predict_proba(test))


def _write(classifier: Any, target: Path) -> None:
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    model = convert_lightgbm(
        classifier,
        initial_types=[("input", FloatTensorType([None, 30]))],
        zipmap=False,
        target_opset=15,
    )
    # The converter declares `label` as one element; it has one for each row.
    for output in model.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "batch"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_suffix(".partial")
    staged.write_bytes(model.SerializeToString())
    staged.rename(target)
