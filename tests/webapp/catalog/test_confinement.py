"""What a process that gave up its rights can still do. Each claim is asked of the kernel."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = """
import json, os, resource, socket, subprocess, sys
from pathlib import Path
from webapp.catalog.inspection.confinement import confine
from webapp.catalog.inspection.subject import Limits

work, secret = Path(sys.argv[1]), Path(sys.argv[2])
limits = Limits(
    max_upload_bytes=1, max_unpacked_bytes=1024 * 1024, max_files=1, max_ratio=1,
    memory_bytes=2 * 1024**3, cpu_seconds=60,
)
readable = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, ("/usr", "/lib", "/lib64"))]
held = confine(limits, work=work, readable=readable)

def attempt(act):
    try:
        act()
    except Exception as problem:
        return type(problem).__name__
    return "allowed"

def connect():
    with socket.socket() as link:
        link.settimeout(2)
        link.connect(("127.0.0.1", int(sys.argv[3])))

def fill_memory():
    bytearray(3 * 1024**3)

def fill_disk():
    (work / "big").write_bytes(bytes(2 * 1024 * 1024))

print(json.dumps({
    "held": held,
    "read secret": attempt(secret.read_text),
    "read parent": attempt(Path(f"/proc/{os.getppid()}/environ").read_bytes),
    "write outside": attempt(lambda: (secret.parent / "new").write_text("x")),
    "write inside": attempt(lambda: (work / "new").write_text("x")),
    "start a program": attempt(lambda: subprocess.run(["/bin/true"], check=True)),
    "connect": attempt(connect),
    "fill memory": attempt(fill_memory),
    "fill disk": attempt(fill_disk),
}))
"""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:

    home = tmp_path_factory.mktemp("home")
    work = home / "work"
    work.mkdir()
    secret = home / "secret_key"
    secret.write_text("hidden")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-c",
                _SCRIPT,
                str(work),
                str(secret),
                str(listener.getsockname()[1]),
            ],
            cwd=work,
            env={"PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_memory_and_disk_are_limited_everywhere(findings: dict[str, Any]) -> None:
    assert findings["fill memory"] == "MemoryError"
    assert findings["fill disk"] == "OSError"
    assert findings["write inside"] == "allowed"
    assert "memory, CPU time and file size limited" in findings["held"]


def test_files_and_programs_are_out_of_reach_where_landlock_is(findings: dict[str, Any]) -> None:
    if "files outside its folder hidden" not in findings["held"]:
        pytest.skip("this kernel has no Landlock")
    for act in ("read secret", "read parent", "write outside", "start a program"):
        assert findings[act] == "PermissionError", act


def test_the_network_is_out_of_reach_where_namespaces_are(findings: dict[str, Any]) -> None:
    if "no network" not in findings["held"]:
        pytest.skip("this machine forbids user namespaces")
    assert findings["connect"] != "allowed"
