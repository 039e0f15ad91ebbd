"""A federation whose clients are elsewhere has the bits of one process, for every method."""

import warnings

import pytest
import torch
from support.every import CROWDED, NAMES, SETTINGS, small
from support.federations import assert_same_bits, federation, tiny_scenario, weights_of

from fedtutor.engine.files import load_tensors
from fedtutor.errors import SettingError, StorageError
from fedtutor.federation import Federation
from fedtutor.methods.fedavg import FedAvg
from fedtutor.processes.messages import read, rehearsed, written
from fedtutor.processes.site import KEPT
from fedtutor.processes.stage import Unreachable
from fedtutor.rounds import run


def apart(name: str, *, leave_out: bool = False, **changes):
    """(the federation in one process, the same with a site per client)."""
    here = ready(name, **changes)
    return here, rehearsed(here.scenario, small(name), here.settings, leave_out=leave_out)


def ready(name: str, **changes) -> Federation:
    options = {"models": ["hidden"], **CROWDED, **SETTINGS.get(name, {}), **changes}
    return federation(small(name), scenario=tiny_scenario(clients=4), **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_the_bits_of_one_process(name):
    here, there = apart(name)
    assert_equal(run(there), run(here))


@pytest.mark.parametrize("name", ["fedavg", "solo"])  # the server's network, and the clients' own
def test_an_accuracy_of_top_answers_is_that_of_one_process(name):
    here, there = apart(name, top=2)
    found = run(here)
    assert_equal(run(there), found)
    assert found["accuracy"] != run(ready(name))["accuracy"]


def assert_equal(there: dict, here: dict) -> None:
    for key in ("accuracy", "loss", "bytes"):
        assert here[key] == there[key], key


@pytest.mark.parametrize("name", NAMES)
def test_clients_and_server_end_with_the_same_weights(name):
    here, there = apart(name)
    run(here)
    run(there)
    there.clients = []  # they have no weights here
    theirs = weights_of(there)
    for id, site in there.sites.items():
        theirs |= {key: w for key, w in weights_of(site.place).items() if key.startswith(f"{id}/")}
    assert_same_bits(weights_of(here), theirs)


def test_what_crosses_is_noted():
    _, there = apart("fccl")
    run(there)
    calls = {row["call"] for row in there.crossed}
    assert {"begin_round", "local_update", "row"} < calls
    assert {row["client"] for row in there.crossed} == set(there.sites)
    # bytes on the wire are those of the messages, which the channel counts, and a little more
    counted = sum(row["bytes"] for row in there.history["bytes"])
    wire = sum(row["up"] + row["down"] for row in there.crossed)
    assert wire > counted


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "look",
    [
        lambda c: c.model.state_dict(),
        lambda c: c.data,
        lambda c: c.state["x"],
        lambda c: c.model(1),
    ],
)
def test_a_look_at_a_client_is_refused_with_the_name_of_the_hook(look):
    class Own(FedAvg):
        def aggregate(self, fed, clients):
            look(clients[0])

    here = ready("fedavg")
    fed = rehearsed(here.scenario, Own(), here.settings)
    with pytest.raises(
        SettingError, match=r"aggregate looks at client\.(model|data|state)"
    ) as error:
        run(fed)
    assert "fed.ask" in error.value.do


def test_the_scenario_of_the_server_leads_to_no_private_image():
    class Own(FedAvg):
        def aggregate(self, fed, clients):
            return fed.scenario.clients[0].private

    here = ready("fedavg")
    fed = rehearsed(here.scenario, Own(), here.settings)
    with pytest.raises(SettingError, match=r"aggregate looks at client\.private"):
        run(fed)
    assert fed.scenario.fingerprint == here.scenario.fingerprint


def test_one_image_does_not_take_the_others_along():
    images = torch.rand(100, 3, 8, 8)
    message = written({"value": [images[:1], (images[1], 2)]})
    assert len(message) < images[:2].nbytes + 4096 < images.nbytes
    one, (other, number) = read(message)["value"]
    assert torch.equal(one, images[:1]) and torch.equal(other, images[1]) and number == 2


def test_a_filter_of_the_channel_is_refused():
    _, there = apart("fedavg")
    there.channel.filters.append(lambda *a: a)
    with pytest.raises(SettingError, match="after they have left the client"):
        run(there)


# ------------------------------------------------------------------------------------ faults


def silent(fed, id: str, call: str, round_: int) -> None:
    """From that call on, the client's process answers no more."""
    answers, dead = fed.calls, []

    def calls(client, name, *arguments):
        if client == id and (dead or (name == call and fed.round_ == round_)):
            dead.append(name)
            raise Unreachable(f"client {client} does not answer", where=name, do="see its log")
        return answers(client, name, *arguments)

    fed.calls = calls
    fed.dead = dead


MOMENTS = [(name, call) for name in ("fccl", "fedavg", "repshare", "fedlgd", "scaffold")
           for call in ("begin_round", "ask", "local_update", "row", "packed")
           if call != "row" or name in ("fccl", "repshare")]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), MOMENTS)
def test_a_silent_client_is_left_out_from_then_on(name, call):
    _, there = apart(name, participation=1.0, leave_out=True)
    last = list(there.sites)[-1]
    silent(there, last, call, round_=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        history = run(there)
    assert {row["client"] for row in history["failures"]} == {last}
    assert len(history["loss"]) == 3 and None not in history["loss"][0]["values"]
    assert history["loss"][2]["values"][-1] is None
    assert len(there.dead) == 1  # it is not asked again


@pytest.mark.parametrize("call", ["begin_round", "ask", "local_update", "row"])
def test_a_silent_client_stops_the_run_by_name(call):
    _, there = apart("fccl", participation=1.0)
    last = list(there.sites)[-1]
    silent(there, last, call, round_=2)
    with pytest.raises(Unreachable, match=f"client {last} does not answer"):
        run(there)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_from_the_states_of_its_clients(name, tmp_path):
    here = run(ready(name))

    def again():
        ours = ready(name)
        fed = rehearsed(ours.scenario, small(name), ours.settings)
        for id, site in fed.sites.items():
            site.folder = tmp_path / id
            site.folder.mkdir(exist_ok=True)
        return fed

    first = again()
    silent(first, next(iter(first.sites)), "begin_round", round_=3)
    with pytest.raises(Unreachable):
        run(first, checkpoint=tmp_path / "server", every=0)
    kept = next((tmp_path / "server").glob("round-*2.pt"))
    assert kept.exists()
    assert_equal(run(again(), checkpoint=tmp_path / "server", every=0), here)
    assert all(len(list((tmp_path / id).glob("*.pt"))) <= KEPT for id in first.sites)


def test_a_client_without_its_states_says_so(tmp_path):
    _, there = apart("fedavg")
    run(there)
    with pytest.raises(StorageError, match="no longer has its state"):
        next(iter(there.sites.values())).unpacked("no such name")


def test_the_server_keeps_names_and_no_weights_of_a_client(tmp_path):
    _, there = apart("fccl")
    run(there, checkpoint=tmp_path, every=0)
    value = load_tensors(sorted(tmp_path.glob("*.pt"))[-1])
    clients = {key: kept for key, kept in value["holders"].items() if key != "server"}
    assert clients and all(isinstance(kept, str) for kept in clients.values())
