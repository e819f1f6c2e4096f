"""REST views of serving."""
