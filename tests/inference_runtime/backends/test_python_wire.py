"""What travels between the server and the process of a model: frames, arenas, and the table of types."""

import os
import random
import socket
import threading

import numpy as np
import pytest

from inference_runtime.backends.python.wire import datatypes, frames
from inference_runtime.backends.python.wire.arena import (
    INLINE_LIMIT,
    ArenaFull,
    ArenaReader,
    ArenaWriter,
    BadPlace,
    FreeList,
    Packer,
    Unpacker,
    new_memory,
)
from inference_runtime.backends.python.wire.frames import BrokenFrame, FrameReader, Kind
from inference_runtime.spec.datatypes import BY_WIRE

SIZE = 4 << 20


@pytest.fixture
def arena():
    fd = new_memory("test", SIZE)
    yield ArenaWriter(fd, SIZE), ArenaReader(fd, SIZE), fd
    os.close(fd)


def test_the_table_of_types_is_that_of_the_server():
    assert {name: (row.number, row.dtype) for name, row in BY_WIRE.items() if name != "BYTES"} == {
        name: (datatypes.NUMBERS[name], datatypes.DTYPES[name])
        for name in datatypes.NUMBERS
        if name != "BYTES"
    }


def test_frames_arrive_whole_whatever_pieces_they_come_in():
    sent = [(Kind.EXECUTE, b"{}", b""), (Kind.CALL, b"[1,2]", b"x" * 1000), (Kind.TRIM, b"", b"")]
    stream = b"".join(
        bytes(part)
        for kind, text, payload in sent
        for part in frames.frame(kind, text, [payload] if payload else [])
    )
    for seed in range(20):
        chance = random.Random(seed)
        reader, found, at = FrameReader(), [], 0
        while at < len(stream):
            size = chance.randint(1, 400)
            found += list(reader.feed(stream[at : at + size]))
            at += size
        assert [(kind, text, bytes(payload)) for kind, text, payload in found] == sent


def test_a_large_frame_goes_through_a_small_buffer():
    ours, theirs = socket.socketpair()
    parts = frames.frame(Kind.DONE, b"{}", [bytes([n % 256]) * 5000 for n in range(700)])
    sender = threading.Thread(target=frames.send, args=(ours, parts))
    sender.start()
    kind, text, payload = frames.receive(theirs)
    sender.join()
    assert (kind, text, len(payload)) == (Kind.DONE, b"{}", 3_500_000)
    assert payload[5000 * 255 : 5000 * 257] == b"\xff" * 5000 + b"\x00" * 5000
    ours.close()
    with pytest.raises(EOFError):
        frames.receive(theirs)
    theirs.close()


def test_a_size_beyond_all_bounds_is_no_frame():
    header = frames.HEADER.pack(Kind.CALL, 10, frames.MAX_PAYLOAD + 1)
    with pytest.raises(BrokenFrame):
        list(FrameReader().feed(header))


def test_views_are_the_memory_itself_and_release_their_block_with_the_last_of_them(arena):
    writer, reader, _ = arena
    place = writer.write(b"a" * 100_000)
    view = reader.view(place)
    part = view.view(np.uint16)[10:20].reshape(2, 5)
    text = memoryview(part)
    del view
    assert reader.take_released() == []
    assert bytes(text) == b"a" * 20
    del part, text
    released = reader.take_released()
    assert released == [place[0]]
    assert writer.used > 0
    writer.release(released)
    assert writer.used == 0


@pytest.mark.parametrize(("count", "size"), [(16, 64), (2, 600_000)])
def test_many_blocks_and_large_ones_are_worth_a_frame_of_their_own(arena, count, size):
    writer, reader, _ = arena
    views = [reader.view(writer.write(bytes(size))) for _ in range(count)]
    while len(views) > 1:
        views.pop()
        assert not reader.due
    views.clear()
    assert reader.due
    assert len(reader.take_released()) == count
    assert not reader.due


def test_what_is_free_is_given_back_to_the_system(arena):
    writer, _, fd = arena
    kept = writer.write(b"k" * 10_000)
    place = writer.write(b"x" * 1_000_000)
    before = os.fstat(fd).st_blocks
    writer.release([place[0]])
    writer.trim()
    assert os.fstat(fd).st_blocks < before / 4
    assert writer.used >= kept[1]
    assert writer.write(b"y" * 1_000_000) == place


def test_an_arena_that_is_full_says_so_and_takes_nothing(arena):
    writer, _, _ = arena
    writer.write(bytes(SIZE // 2))
    used = writer.used
    with pytest.raises(ArenaFull) as caught:
        writer.write(bytes(SIZE))
    assert (caught.value.wanted, caught.value.limit) == (SIZE, SIZE)
    assert writer.used == used


def test_places_outside_the_memory_are_refused(arena):
    writer, reader, _ = arena
    place = writer.write(b"x" * INLINE_LIMIT * 2)
    for bad in ([-1, 10], [0, SIZE + 1], [SIZE, 1], [place[0], -5]):
        with pytest.raises(BadPlace):
            reader.view(bad)
    unpacker = Unpacker(bytearray(10), reader)
    assert bytes(unpacker.take(4)) == bytes(4)
    for bad_size in (7, -1):
        with pytest.raises(BadPlace):
            unpacker.take(bad_size)


def test_releasing_what_nobody_took_changes_nothing(arena):
    writer, _, _ = arena
    place = writer.write(bytes(100_000))
    used = writer.used
    writer.release([place[0] + 64, -1, SIZE * 2])
    assert writer.used == used
    writer.release([place[0], place[0]])
    assert writer.used == 0


def test_the_file_can_not_be_cut_under_its_reader(arena):
    _, _, fd = arena
    for size in (0, SIZE * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)


def test_a_packer_takes_back_what_did_not_fit(arena):
    writer, reader, _ = arena
    packer = Packer(writer)
    first = packer.put(b"small")
    mark = packer.mark()
    packer.put(b"x" * (INLINE_LIMIT + 1))
    packer.put(b"also small")
    with pytest.raises(ArenaFull):
        packer.put(bytes(SIZE))
    packer.undo(mark)
    assert (first, packer.payload, writer.used) == (5, [b"small"], 0)
    assert reader.take_released() == []


def test_free_memory_is_joined_again_whatever_the_order():
    for seed in range(30):
        chance = random.Random(seed)
        free = FreeList(1 << 16)
        taken: list[int] = []
        for _ in range(300):
            if taken and chance.random() < 0.5:
                free.give(taken.pop(chance.randrange(len(taken))))
            else:
                start = free.take(chance.randint(1, 3000))
                if start is not None:
                    taken.append(start)
        chance.shuffle(taken)
        for start in taken:
            free.give(start)
        assert (free.gaps(), free.used) == ([(0, 1 << 16)], 0)
