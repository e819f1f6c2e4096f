"""Jobs as the API shows them: operations."""

from webapp.core.operations import operation_body, operation_response

__all__ = ["operation_body", "operation_response"]
