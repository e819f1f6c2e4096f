"""`--host-policy` against the machine the server starts on."""

from collections.abc import Mapping

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.instances.host_binding import available_cores, node_cores
from inference_runtime.spec.host_policy import HostPolicy, read_policies


def host_policies(given: Arguments) -> Mapping[str, HostPolicy]:
    try:
        policies = read_policies(given.many("host-policy"))
        for name, policy in policies.items():
            _check(name, policy)
    except ValueError as error:
        raise UsageError(f'Bad option: "--host-policy". {error}.') from error
    return policies


def _check(name: str, policy: HostPolicy) -> None:
    missing = set(policy.cores) - available_cores()
    if missing:
        wrong = ", ".join(map(str, sorted(missing)))
        raise ValueError(f"{name}: this process may not use processor {wrong}")
    if policy.numa_node is not None and not node_cores(policy.numa_node):
        raise ValueError(f"{name}: this machine has no NUMA node {policy.numa_node}")
