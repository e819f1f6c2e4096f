"""The child process that opens untrusted bytes: `python -P -m webapp.catalog.sandbox_child WORK`.

No Django, no database, no secrets in its environment. It reads an assignment from standard input,
gives up its rights, runs the checks and writes one JSON line per event to standard output.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from webapp.catalog.inspection.confinement import confine
from webapp.catalog.inspection.subject import Subject, assignment_of


def main() -> int:
    work = Path(sys.argv[1])
    # Native libraries print to descriptor 1; the events get a descriptor of their own.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def report(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    assignment = assignment_of(json.loads(sys.stdin.buffer.read()))
    readable = _readable()
    if assignment.recheck:
        readable.append(Path(assignment.published_folder))
    held = confine(assignment.limits, work=work, readable=readable)
    report({"confined": held})
    from webapp.catalog.inspection.steps import inspect  # heavy libraries load confined

    subject = Subject(work=work, assignment=assignment)
    accepted = inspect(subject, report)
    report(
        {
            "result": {
                "accepted": accepted,
                "inputs": [row.as_json() for row in subject.inputs],
                "outputs": [row.as_json() for row in subject.outputs],
                "config_text": subject.config_text,
                "metadata": subject.metadata,
            }
        }
    )
    events.close()
    sys.stderr.flush()
    os._exit(0)  # nothing to tidy, and native destructors have been known to crash


def _readable() -> list[Path]:
    """The interpreter, its libraries and our own code; never the home folder with its secrets."""
    code = Path(__file__).resolve().parent.parent.parent
    return [
        Path(sys.prefix),
        Path(sys.base_prefix),
        code / "webapp",
        code / "inference_runtime",
        *map(Path, ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/ld.so.cache")),
    ]


if __name__ == "__main__":
    main()
