"""The only door to a runtime. No Django here; synchronous; every call has a time limit."""
