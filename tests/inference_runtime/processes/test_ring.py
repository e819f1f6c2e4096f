"""Every message arrives whole, once and in order, whatever its size and whenever either side comes by."""

import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.processes.ring import (
    HEADER_SIZE,
    BrokenRing,
    Message,
    RingReader,
    RingWriter,
)

LIMIT = 1 << 20


def ring(size: int) -> tuple[RingWriter, RingReader, memoryview]:
    memory = memoryview(bytearray(HEADER_SIZE + size))
    return RingWriter(memory), RingReader(memory, limit=LIMIT), memory


sizes = st.one_of(st.integers(1, 40), st.integers(1, 700), st.integers(1, 5000))
# How many parts a message has, and how long each is.
messages = st.lists(st.lists(sizes, min_size=1, max_size=4), max_size=40)


@given(
    size=st.sampled_from([256, 512, 1024, 4096]),
    wanted=messages,
    turns=st.lists(st.booleans(), max_size=200),
)
@settings(max_examples=150, deadline=None)
def test_messages_arrive_whole_and_in_order(size, wanted, turns):
    writer, reader, _ = ring(size)
    texts = [
        [
            bytes([(17 * index + part + byte) % 251 for byte in range(length)])
            for part, length in enumerate(parts)
        ]
        for index, parts in enumerate(wanted)
    ]
    unsent = [Message(parts) for parts in texts]
    arrived = []

    def write():
        while unsent and writer.write(unsent[0]):
            unsent.pop(0)

    def read():
        message = reader.read()
        if message is not None:
            arrived.append(bytes(message))

    for turn in turns:
        (write if turn else read)()
    idle = 0
    while idle < 2 * size:
        write()
        before = len(arrived), unsent[0].left if unsent else 0
        read()
        idle = 0 if before != (len(arrived), unsent[0].left if unsent else 0) else idle + 1
        if not unsent and len(arrived) == len(texts):
            break
    assert arrived == [b"".join(parts) for parts in texts]
    assert reader.read() is None


def test_a_full_ring_takes_nothing_until_it_is_read():
    writer, reader, _ = ring(256)
    sent = 0
    while writer.write(Message([bytes([sent]) * 32])):
        sent += 1
        assert sent < 20
    assert not writer.write(Message([b"x" * 32]))
    assert reader.read() == bytes(32)
    assert writer.write(Message([bytes([sent]) * 32]))
    for number in range(1, sent + 1):
        assert reader.read() == bytes([number]) * 32
    assert reader.read() is None


def test_the_writer_says_that_it_waits_and_is_told_once():
    writer, reader, _ = ring(256)
    assert not reader.room_is_asked_for()
    writer.ask_for_room()
    assert reader.room_is_asked_for()
    assert not reader.room_is_asked_for()


def test_what_was_read_belongs_to_the_reader():
    writer, reader, memory = ring(256)
    writer.write(Message([b"before"]))
    message = reader.read()
    memory[HEADER_SIZE:] = bytes(256)
    assert message == b"before"


@pytest.mark.parametrize("offset", [0, 4])
def test_nonsense_is_told_and_not_followed(offset):
    writer, reader, memory = ring(256)
    writer.write(Message([b"some bytes"]))
    memory[HEADER_SIZE + offset : HEADER_SIZE + offset + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(BrokenRing):
        reader.read()


def test_a_message_above_the_limit_is_not_believed():
    writer, reader, _ = ring(256)
    writer.write(Message([bytes(LIMIT + 1)]))
    with pytest.raises(BrokenRing):
        reader.read()
