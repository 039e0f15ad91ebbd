"""A federation whose clients are elsewhere has the bits of one process, for every method."""

import io

import pytest
import torch
from support.every import CROWDED, NAMES, SETTINGS, small
from support.federations import federation, tiny_scenario, weights_of

from fedtutor.federation import Federation
from fedtutor.processes.site import Site
from fedtutor.processes.stage import RemoteFederation
from fedtutor.rounds import run


def crossed(value):
    """`value` as another process would read it."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def apart(name: str, *, clients: int = 4, **changes):
    """(the federation in one process, the same with a site per client, the sites)."""
    here = ready(name, **changes)
    sites = {c.id: Site(c.id, here.scenario, small(name), here.settings) for c in here.clients}

    def calls(id, name, *arguments):
        return crossed(getattr(sites[id], name)(*crossed(list(arguments))))

    there = RemoteFederation(here.scenario, small(name), here.settings, calls=calls)
    return here, there, sites


def ready(name: str, **changes) -> Federation:
    options = {"models": ["hidden"], **CROWDED, **SETTINGS.get(name, {}), **changes}
    return federation(small(name), scenario=tiny_scenario(clients=4), **options)


def gathered(there, sites) -> dict:
    """What `weights_of` says of one process, from the sites and the server."""
    found = {}
    for id, site in sites.items():
        own = weights_of(site.place)
        found |= {key: w for key, w in own.items() if key.startswith(id)}
    server = weights_of(there)
    return found | server


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_the_bits_of_one_process(name):
    here, there, _ = apart(name)
    run(here)
    run(there)
    for key in ("accuracy", "loss", "bytes"):
        assert here.history[key] == there.history[key], key
