"""Settings that can not be meant are refused with what to do."""

import pytest

from webapp import env


def test_a_choice_that_is_none_is_refused_with_advice(monkeypatch):
    monkeypatch.setenv("STORAGE_URL", "s3://bucket")
    with pytest.raises(env.EnvironmentProblem) as problem:
        env.choice("STORAGE_URL", "local", ("local",), "Mount a volume.")
    assert str(problem.value) == "STORAGE_URL: 's3://bucket' is not possible here. Mount a volume."
    monkeypatch.setenv("STORAGE_URL", "")
    assert env.choice("STORAGE_URL", "local", ("local",), "") == "local"
