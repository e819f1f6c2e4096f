"""A front-end process, started by `processes.supervisor`. Its argument names the descriptors it was given."""

import json
import sys

import uvloop

from inference_runtime.processes.front_end import run

if __name__ == "__main__":
    uvloop.run(run(json.loads(sys.argv[1])))
