"""The data types by the name on the wire, for both sides; numpy only, so that a stub starts quickly.

The same rows as `spec.datatypes`, which needs protobuf and so is not for the model's process.
"""

import numpy as np

NUMBERS: dict[str, int] = {
    "BOOL": 1, "UINT8": 2, "UINT16": 3, "UINT32": 4, "UINT64": 5, "INT8": 6, "INT16": 7, "INT32": 8,
    "INT64": 9, "FP16": 10, "FP32": 11, "FP64": 12, "BYTES": 13, "BF16": 14,
}  # fmt: skip
DTYPES: dict[str, "np.dtype[np.generic]"] = {
    "BOOL": np.dtype("bool"), "UINT8": np.dtype("u1"), "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"), "UINT64": np.dtype("<u8"), "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"), "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
    "BYTES": np.dtype("object"), "BF16": np.dtype("<u2"),
}  # fmt: skip
BY_DTYPE: dict["np.dtype[np.generic]", str] = {
    dtype: name for name, dtype in DTYPES.items() if name != "BF16"
}
