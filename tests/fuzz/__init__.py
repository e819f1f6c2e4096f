"""Everything that reads bytes of strangers, under a fuzzer that follows coverage.

`pip install atheris`, then `python -m tests.fuzz <target> --seconds 600`; without a target, all of them in turn. Inputs
that are worth keeping lie in `var/fuzz/<target>`. The quick suite runs every target over its seeds and over
bytes of hypothesis.
"""
