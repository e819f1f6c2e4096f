"""Amounts as people read them."""

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def size(count: int) -> str:
    """Three significant digits and a unit: 22.9 MB."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{count} bytes" if unit == "bytes" else f"{value:.3g} {unit}"


def elements(tensor_dims: list[int]) -> int:
    count = 1
    for dim in tensor_dims:
        count *= dim
    return count
