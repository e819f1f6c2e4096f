"""HPACK: decodes header blocks with their dynamic table, writes answers as literals (RFC 7541)."""

from typing import Final

from inference_runtime.frontends import hpack_huffman
from inference_runtime.frontends.hpack_tables import STATIC

Field = tuple[bytes, bytes]

TABLE_SIZE: Final = 4096  # the default of SETTINGS_HEADER_TABLE_SIZE, which we leave as it is
_ENTRY_OVERHEAD: Final = 32
_STATIC_COUNT: Final = len(STATIC)


class HpackFault(Exception):
    """The block can not be decoded; the connection's header state is lost with it."""


class HeaderDecoder:
    """The decoding half of one connection.

    `changes` grows whenever the dynamic table does or shrinks: as long as it stands still, equal blocks
    mean equal headers.
    """

    __slots__ = ("_entries", "_limit", "_list_limit", "_size", "changes")

    def __init__(self, list_limit: int) -> None:
        self._entries: list[Field] = []  # the newest last
        self._size = 0
        self._limit = TABLE_SIZE
        self._list_limit = list_limit
        self.changes = 0

    def decode(self, block: bytes) -> list[Field] | None:
        """The fields in order; None when they are more than the list limit allows.

        Even then the whole block is processed, so that the table stays in step with the client's.
        """
        fields: list[Field] = []
        budget = self._list_limit
        position = self._size_updates(block)
        end = len(block)
        while position < end:
            byte = block[position]
            if byte & 0x80:
                index, position = _integer(block, position, 7)
                field = self._field(index)
            elif byte & 0x40:
                field, position = self._literal(block, position, 6)
                self._add(field)
            elif byte & 0x20:
                raise HpackFault("table size update inside a block")
            else:
                field, position = self._literal(block, position, 4)
            budget -= len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD
            if budget >= 0:
                fields.append(field)
        return fields if budget >= 0 else None

    def _size_updates(self, block: bytes) -> int:
        position = 0
        while position < len(block) and block[position] & 0xE0 == 0x20:
            limit, position = _integer(block, position, 5)
            if limit > TABLE_SIZE:
                raise HpackFault("table size above the one we announced")
            self._limit = limit
            self._evict(0)
            self.changes += 1
        return position

    def _field(self, index: int) -> Field:
        if 0 < index <= _STATIC_COUNT:
            return STATIC[index - 1]
        place = index - _STATIC_COUNT
        if not 0 < place <= len(self._entries):
            raise HpackFault(f"no header at index {index}")
        return self._entries[-place]

    def _literal(self, block: bytes, position: int, prefix: int) -> tuple[Field, int]:
        index, position = _integer(block, position, prefix)
        if index:
            name = self._field(index)[0]
        else:
            name, position = _string(block, position)
        value, position = _string(block, position)
        return (name, value), position

    def _add(self, field: Field) -> None:
        size = len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD
        self.changes += 1
        self._evict(size)
        if size <= self._limit:
            self._entries.append(field)
            self._size += size

    def _evict(self, incoming: int) -> None:
        while self._entries and self._size + incoming > self._limit:
            name, value = self._entries.pop(0)
            self._size -= len(name) + len(value) + _ENTRY_OVERHEAD


def _integer(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    if position >= len(block):
        raise HpackFault("block ends inside an integer")
    top = (1 << prefix) - 1
    value = block[position] & top
    position += 1
    if value < top:
        return value, position
    for shift in (0, 7, 14, 21):  # 28 bits are more than any length or index may need
        if position >= len(block):
            raise HpackFault("block ends inside an integer")
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HpackFault("integer too large")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    if position >= len(block):
        raise HpackFault("block ends before a string")
    coded = block[position] & 0x80
    length, position = _integer(block, position, 7)
    stop = position + length
    if stop > len(block):
        raise HpackFault("block ends inside a string")
    text = block[position:stop]
    if coded:
        try:
            text = hpack_huffman.decode(text)
        except hpack_huffman.HuffmanFault as fault:
            raise HpackFault(str(fault)) from fault
    return text, stop


def literal(name: bytes, value: bytes) -> bytes:
    """A header that enters no table, so what is written needs no memory on either side."""
    return b"\x00" + _encoded_length(name) + name + _encoded_length(value) + value


def indexed(index: int) -> bytes:
    """A whole header of the static table."""
    return bytes([0x80 | index])


def _encoded_length(text: bytes) -> bytes:
    length = len(text)
    if length < 127:
        return bytes([length])
    out = bytearray([127])
    length -= 127
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    out.append(length)
    return bytes(out)
