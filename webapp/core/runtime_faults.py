"""What a runtime's faults mean to whoever asked us: the safety net under services that do not say
it better themselves."""

from webapp.core.errors import Conflict, ControlPlaneError, Unavailable
from webapp.runtime_client.errors import RuntimeLacks, RuntimeProblem, RuntimeUnreachable


class RefusedByRuntime(ControlPlaneError):
    status = 502
    title = "Refused by the runtime"


def control_plane_error(problem: RuntimeProblem) -> ControlPlaneError:
    if isinstance(problem, RuntimeUnreachable):
        return Unavailable(
            f"The runtime does not answer: {problem.text}",
            reason="RUNTIME_UNREACHABLE",
            help_text="See under Runtimes whether it runs and whether its addresses are right.",
        )
    if isinstance(problem, RuntimeLacks):
        return Conflict(
            f"Not possible here: {problem.text}.",
            reason="RUNTIME_LACKS_EXTENSION",
            help_text="Use the embedded runtime for this, or another of ours.",
        )
    return RefusedByRuntime(
        f"The runtime refused: {problem.text}",
        reason="RUNTIME_REFUSED",
        help_text="The sentence is the runtime's own; its log may say more.",
    )
