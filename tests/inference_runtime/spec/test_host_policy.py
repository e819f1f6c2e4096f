"""Host policies as the command line writes them."""

import pytest

from inference_runtime.spec.host_policy import HostPolicy, policy_name, read_policies
from inference_runtime.spec.model_config import InstanceKind


def test_settings_of_a_policy_add_up():
    found = read_policies(
        ["cpu,cpu-cores=0-3,8", "near,numa-node=1", "near,cpu-cores=5", "near,cpu-cores=6"]
    )
    assert found == {
        "cpu": HostPolicy(cores=(0, 1, 2, 3, 8)),
        "near": HostPolicy(cores=(6,), numa_node=1),
    }


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("cpu", "use <policy>,<setting>=<value>"),
        (",cpu-cores=1", "use <policy>,<setting>=<value>"),
        ("cpu,cpu-cores=", "use <policy>,<setting>=<value>"),
        ("cpu,color=red", "the settings are numa-node and cpu-cores, not"),
        ("cpu,numa-node=x", "numa-node must be the number of a node"),
        ("cpu,cpu-cores=a-b", "cpu-cores are given like 0-3"),
        ("cpu,cpu-cores=3-1", "is no range of processors"),
        ("cpu,cpu-cores=0-999999", "is no range of processors"),
    ],
)
def test_what_means_nothing_is_refused(entry, problem):
    with pytest.raises(ValueError, match=problem):
        read_policies([entry])


def test_an_instance_goes_by_its_groups_policy_or_that_of_its_kind():
    assert policy_name("near", InstanceKind.GPU, 1) == "near"
    assert policy_name("", InstanceKind.GPU, 1) == "gpu_1"
    assert policy_name("", InstanceKind.CPU, None) == "cpu"
    assert policy_name("", InstanceKind.MODEL, None) == "model"
