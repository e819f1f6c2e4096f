"""`make demo`: three real models through the public doors, as a stranger's script would do it."""

from stack.demo.tour import run_demo

__all__ = ["run_demo"]
