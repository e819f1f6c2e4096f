"""Amounts as people read them."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Three significant digits and a binary unit, as on the pages: 21.9 MiB."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    if unit == "bytes":
        return f"{count} bytes"
    return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def elements(tensor_dims: list[int]) -> int:
    count = 1
    for dim in tensor_dims:
        count *= dim
    return count
