"""Messages of a gRPC stream come out as they went in, wherever their bytes are cut."""

import struct
from itertools import accumulate, pairwise

from hypothesis import given, strategies as st

from inference_runtime.frontends.grpc_messages import MessageReader
from inference_runtime.frontends.memory_budget import MemoryBudget

LIMIT = 1 << 20
CONTENTS = st.integers(0, 5000).map(lambda size: bytes(i % 251 for i in range(size)))
MESSAGES = st.lists(st.tuples(CONTENTS, st.booleans()), min_size=1, max_size=5)
CUTS = st.lists(st.floats(0, 1), max_size=12)


@given(MESSAGES, CUTS, st.booleans())
def test_cuts_do_not_matter(messages, cuts, at_their_ends):
    framed = [struct.pack(">BI", flag, len(message)) + message for message, flag in messages]
    sent = b"".join(framed)
    ends = accumulate(map(len, framed)) if at_their_ends else ()
    places = sorted({0, *(int(cut * len(sent)) for cut in cuts), *ends, len(sent)})
    budget = MemoryBudget(LIMIT)
    reader = MessageReader(LIMIT, budget)
    read = []
    for start, stop in pairwise(places):
        read += reader.feed(sent[start:stop])
    assert read == messages
    assert reader.count == len(messages)
    assert not reader.incomplete
    assert budget.used_bytes == 0
