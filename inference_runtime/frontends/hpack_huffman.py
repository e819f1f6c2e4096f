"""Huffman-coded strings of HPACK, decoded half a byte at a time by a table of states."""

from collections.abc import Iterator
from typing import Final

from inference_runtime.frontends.hpack_tables import HUFFMAN_CODES
from inference_runtime.protocol.memo import Memo

_EOS: Final = 256
_MEMO_STRING: Final = 256


class HuffmanFault(Exception):
    """The bits are no valid string."""


class _Tree:
    """The code as a binary tree: `branch[node][bit]` is a node, or ~symbol for a leaf."""

    def __init__(self) -> None:
        self.branch: list[list[int]] = [[0, 0]]
        for symbol, (code, length) in enumerate(HUFFMAN_CODES):
            self._add(symbol, code, length)

    def _add(self, symbol: int, code: int, length: int) -> None:
        node = 0
        for shift in range(length - 1, 0, -1):
            bit = code >> shift & 1
            if self.branch[node][bit] == 0:
                self.branch.append([0, 0])
                self.branch[node][bit] = len(self.branch) - 1
            node = self.branch[node][bit]
        self.branch[node][code & 1] = ~symbol

    def padding(self) -> Iterator[int]:
        """Nodes a string may end in: up to seven ones after the last symbol."""
        node = 0
        for _ in range(8):
            yield node
            node = self.branch[node][1]


def _build() -> tuple[list[int], list[int], frozenset[int]]:
    tree = _Tree()
    dead = len(tree.branch)  # a state that nothing leads out of
    follow = [dead] * (16 * (dead + 1))
    emit = [-1] * (16 * (dead + 1))
    for start in range(dead):
        for half in range(16):
            node = start
            for shift in (3, 2, 1, 0):
                node = tree.branch[node][half >> shift & 1]
                if node < 0:
                    if ~node == _EOS:
                        node = dead
                        break
                    emit[start << 4 | half] = ~node
                    node = 0
            follow[start << 4 | half] = node
    return follow, emit, frozenset(tree.padding())


_FOLLOW, _EMIT, _ACCEPTED = _build()
_memo: Memo[bytes, bytes] = Memo(limit_count=2048)


def decode(data: bytes) -> bytes:
    known = _memo.get(data)
    if known is not None:
        return known
    text = _decode(data)
    if len(data) <= _MEMO_STRING:
        _memo.put(data, text)
    return text


def _decode(data: bytes) -> bytes:
    out = bytearray()
    state = 0
    follow, emit = _FOLLOW, _EMIT
    for byte in data:
        index = state << 4 | byte >> 4
        if emit[index] >= 0:
            out.append(emit[index])
        index = follow[index] << 4 | byte & 15
        if emit[index] >= 0:
            out.append(emit[index])
        state = follow[index]
    if state not in _ACCEPTED:
        raise HuffmanFault("not a Huffman string, or wrongly padded")
    return bytes(out)
