"""Steps that many tests of serving take."""

from webapp.serving.services import deployment_remove, deployment_request, traffic_set

EDGE = {"http_address": "10.0.0.1:8000", "grpc_address": "10.0.0.1:8001"}


def deploy(yard, version, **more):
    job = deployment_request(version=version, actor=yard.world.olga, **more)
    yard.work()
    job.refresh_from_db()
    return job


def undeploy(yard, version, **more):
    job = deployment_remove(version=version, actor=yard.world.olga, **more)
    yard.work()
    job.refresh_from_db()
    return job


def two_versions(yard):
    """v1 with all traffic, v2 beside it."""
    first, second = yard.publish(1), yard.publish(2)
    assert deploy(yard, first).state == "SUCCEEDED"
    assert deploy(yard, second).state == "SUCCEEDED"
    return first, second


def split(yard, weight, *, stable=1, canary=2, **more):
    return traffic_set(
        model=yard.model,
        arms=[
            {"version": stable, "role": "stable", "weight": round(1 - weight, 4)},
            {"version": canary, "role": "canary", "weight": weight},
        ],
        actor=yard.world.olga,
        reason="test",
        **more,
    )
