from inference_runtime.protocol.memo import Memo


def test_a_full_memo_forgets_everything():
    memo: Memo[str, int] = Memo(limit_count=2)
    get = memo.get
    memo.put("a", 1)
    memo.put("b", 2)
    assert (get("a"), get("b")) == (1, 2)
    memo.put("c", 3)
    assert (get("a"), get("b"), get("c")) == (None, None, 3)


def test_bytes_are_bounded_as_well():
    memo: Memo[str, int] = Memo(limit_count=100, limit_bytes=10)
    memo.put("a", 1, 6)
    memo.put("b", 2, 6)
    assert (memo.get("a"), memo.get("b"), len(memo)) == (None, 2, 1)


def test_what_is_larger_than_the_memo_is_not_kept():
    memo: Memo[str, int] = Memo(limit_count=100, limit_bytes=10)
    memo.put("a", 1, 11)
    assert len(memo) == 0
