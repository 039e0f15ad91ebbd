"""What starts NVIDIA FLARE: in a process of its own, with a console of its own (`launch.py`).

Three ways to play a job: `simulated` (a process per client, TCP without certificates),
`provisioned` (FLARE's real server and sites, each with its certificate, gRPC over mutual TLS) and
`deployed` (sites that are running already, on one machine or many).
"""

import json
import shutil
import socket
import sys
import time
from pathlib import Path

from nvflare.collab import CollabRecipe

from .flare import FlareClient, FlareServer
from .project import project_file


def main(path: str) -> None:
    """Play what the JSON file at `path` asks for (`launch.federate`)."""
    asked = json.loads(Path(path).read_text())
    server = FlareServer(
        **asked["job"],
        output=asked["output"],
        timeout=asked["timeout"],
        leave_out=asked["leave_out"],
    )
    recipe = CollabRecipe(
        "fedtutor",
        server=server,
        client=FlareClient(**asked["job"]),
        min_clients=asked["clients"],
        sync_task_timeout=300,
    )
    recipe._job.set_app_packages(["fedtutor"])  # it is installed everywhere; no code travels
    play = {"simulated": _simulated, "provisioned": _provisioned, "deployed": _deployed}
    play[asked["way"]](recipe, asked["clients"], Path(path).parent, asked["kit"])


def _simulated(recipe, clients: int, place: Path, _) -> None:
    from nvflare.recipe import SimEnv

    names = [f"site-{number}" for number in range(1, clients + 1)]
    here = SimEnv(clients=names, num_threads=clients, workspace_root=str(place / "sites"))
    recipe.execute(here)


def _provisioned(recipe, clients: int, place: Path, _) -> None:
    from nvflare.recipe import PocEnv

    project = place / "project.yml"
    project.write_text(project_file(clients, port=_free_port()))
    here = PocEnv(num_clients=clients, project_conf_path=str(project))
    try:
        run = recipe.execute(here)
        _wait(run)
        run.get_result(clean_up=False)
    finally:
        here.stop(clean_up=False)


def _deployed(recipe, _, place: Path, kit: str) -> None:
    from nvflare.recipe import ProdEnv

    run = recipe.execute(ProdEnv(startup_kit_location=kit, username=Path(kit).name))
    _wait(run)
    shutil.copytree(run.get_result(clean_up=False), place / "out", dirs_exist_ok=True)


def _wait(run) -> None:
    """Until FLARE says that the job has ended, one way or another."""
    while not str(run.get_status()).startswith("FINISHED"):
        time.sleep(1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


if __name__ == "__main__":
    main(sys.argv[1])
