"""Mixed load at full speed, with trouble on purpose, and what must be true afterwards.

`python -m tests.soak --minutes 20` is the long one; a short one runs with the slow suite.
"""
