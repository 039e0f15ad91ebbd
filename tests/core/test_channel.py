import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtutor.channel import SERVER, Channel, Message, copy, size
from fedtutor.clients import Client
from fedtutor.errors import SettingError

leaf = st.builds(lambda n: torch.zeros(n, dtype=torch.float32), st.integers(0, 5))
payloads = st.recursive(
    st.one_of(leaf, st.integers(0, 9), st.floats(0, 1), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3),
                            st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


def client(name="a"):
    return Client(name, name, None, seed=0)


def count_by_hand(payload) -> int:
    if isinstance(payload, torch.Tensor):
        return len(payload) * 4
    if payload is None:
        return 0
    if isinstance(payload, dict):
        return sum(count_by_hand(payload[key]) for key in payload)
    if isinstance(payload, list):
        return sum(count_by_hand(part) for part in payload)
    return 8


@given(payloads)
def test_every_tensor_and_number_is_counted(payload):
    assert size(payload) == count_by_hand(payload)
    assert size(copy(payload)) == size(payload)


def test_sizes_by_type():
    assert size(torch.zeros(3, dtype=torch.uint8)) == 3
    assert size({"a": torch.zeros(2, 2, dtype=torch.float64), "b": torch.zeros(3)}) == 32 + 12


def test_delivered_copy_is_detached_and_independent():
    w = torch.ones(3, requires_grad=True)
    received = Channel().down(client(), "weights", {"w": w})["w"]
    assert not received.requires_grad
    received[0] = 5
    assert w[0] == 1


def test_counts_by_round_direction_and_name():
    channel = Channel()
    channel.up(client(), "weights", torch.zeros(2))
    channel.up(client("b"), "weights", torch.zeros(3))
    channel.round_ = 1
    channel.down(client(), "weights", torch.zeros(1))
    channel.send("a", "b", "features", torch.zeros(4))
    assert channel.table() == [
        {"round": 0, "direction": "up", "name": "weights", "bytes": 20, "messages": 2},
        {"round": 1, "direction": "down", "name": "weights", "bytes": 4, "messages": 1},
        {"round": 1, "direction": "peer", "name": "features", "bytes": 16, "messages": 1},
    ]


def test_nothing_is_recorded_unless_asked():
    channel = Channel()
    channel.up(client(), "weights", torch.zeros(2))
    assert channel.messages == []


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"names": ["logits"]}, [("a", "logits"), ("b", "logits")]),
        ({"clients": ["b"]}, [("b", "logits"), ("b", "weights")]),
        ({"names": ["weights"], "clients": ["a"]}, [("a", "weights")]),
        ({"rounds": [7]}, []),
    ],
)
def test_record_filters(record, expected):
    channel = Channel(record=record)
    for name in ("weights", "logits"):
        for who in ("b", "a"):
            channel.up(client(who), name, torch.zeros(1))
    assert sorted((m.source, m.name) for m in channel.messages) == expected
    assert channel.messages == sorted(channel.messages, key=lambda m: (m.source, m.name))


def test_record_is_what_crossed_then_not_what_became_of_it():
    channel, sent = Channel(record={"names": ["weights"]}), torch.ones(2)
    received = channel.up(client(), "weights", sent)
    sent.add_(1)
    received.add_(5)
    assert torch.equal(channel.messages[0].payload, torch.ones(2))


def test_filters_change_what_is_delivered_counted_and_recorded():
    def halve(message: Message, generator: torch.Generator):
        return message.payload.half() + torch.rand(1, generator=generator).half()

    def go(seed):
        channel = Channel(record={"names": ["weights"]}, seed=seed)
        channel.filters.append(halve)
        return channel, channel.up(client(), "weights", torch.zeros(4))

    channel, received = go(0)
    assert channel.table()[0]["bytes"] == 8
    assert torch.equal(channel.messages[0].payload, received)
    assert torch.equal(received, go(0)[1])
    assert not torch.equal(received, go(1)[1])


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(SettingError, match="a Linear cannot be sent"):
        Channel().up(client(), "model", {"net": torch.nn.Linear(1, 1)})


def test_state_round_trip():
    channel = Channel(record={"names": ["weights"]})
    channel.up(client(), "weights", {"w": torch.ones(2)})
    other = Channel()
    other.restore(channel.state())
    assert other.table() == channel.table()
    assert other.messages[0].target == SERVER
    assert torch.equal(other.messages[0].payload["w"], torch.ones(2))
