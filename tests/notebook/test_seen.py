"""What notebook 01 reads out of a federation and out of results."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedtutor.errors import SettingError
from fedtutor.notebook import seen


def result(seed, intra=0.5, inter=0.5, accuracy=(), rows=()):
    """As much of a `Result` as these functions read: two clients on two domains."""
    history = {"tests": ["a", "b"], "domains": ["a", "b"],
               "accuracy": list(accuracy), "bytes": list(rows)}  # fmt: skip
    return SimpleNamespace(seed=seed, headline={"intra": intra, "inter": inter}, history=history)


def moment(round_, name, own, other):
    return {"round": round_, "moment": name, "matrix": [[own, other], [other, own]]}


def federation(models, *, private, public):
    """Clients that answer an image x [2] with `model(x)`; no federation is played."""
    images = SimpleNamespace
    clients = [SimpleNamespace(id=f"c{k}", model=model, network="n",
                               data=images(x=private, y=torch.tensor([0, 1, 0])))
               for k, model in enumerate(models)]  # fmt: skip
    tests = {name: images(x=private, y=torch.tensor([0, 1, 0])) for name in ("a", "b")}
    scenario = images(public=images(x=public), normalize=lambda x: x, tests=tests)
    return SimpleNamespace(clients=clients, scenario=scenario)


class Linear(torch.nn.Module):
    """Logits x W; its features are x."""

    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))

    def features(self, x):
        return x

    def forward(self, x):
        return x @ self.weight


PRIVATE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.2]])
PUBLIC = torch.tensor([[1.0, 0.5], [0.2, 1.0], [0.0, 0.0], [3.0, 1.0]])


def test_agreement_compares_each_client_with_the_others():
    same, turned = [[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]
    alike = seen.agreement(federation([Linear(same), Linear(same)], private=PRIVATE, public=PUBLIC))
    assert alike["public"]["diagonal"] == pytest.approx(1)
    assert alike["private"]["diagonal"] == pytest.approx(1)
    assert alike["public"]["diagonals"] == pytest.approx([1, 1])
    other = seen.agreement(
        federation([Linear(same), Linear(turned)], private=PRIVATE, public=PUBLIC)
    )
    assert other["public"]["diagonal"] == pytest.approx(-1)  # its own logits are not in the mean
    assert other["public"]["size"] == pytest.approx(alike["public"]["size"])
    assert np.array(other["public"]["matrix"]).shape == (2, 2)
    assert 0 < alike["fit"] < other["fit"] and len(alike["groups"]) == 2


def test_the_first_matrix_has_a_mean_on_and_off_the_diagonal():
    look = [{"public": {"matrix": [[1.0, -0.5], [0.1, 0.6]]}}]
    found = seen.of_first([look, look], "public")
    assert found["on"] == pytest.approx([0.8, 0.8])
    assert found["off"] == pytest.approx([-0.2, -0.2])


def test_the_difference_that_reaches_farthest_decides():
    differences = {"near": [0.1, -0.1, 0.0], "wide": [3.0, -3.0, 0.0], "far": [0.9, 1.0, 1.1]}
    assert seen.widest(differences) == "wide"
    del differences["wide"]
    assert seen.widest(differences) == "far"
    assert seen.widest({"one": [1.0], "other": [-2.0]}) == "other"


def test_gains_pair_the_seeds_that_both_have():
    ours = [result(0, inter=0.6), result(1, inter=0.7), result(2, inter=0.9)]
    alone = [result(1, inter=0.5), result(0, inter=0.5)]
    assert seen.gains(ours, alone, "inter") == pytest.approx([10, 20])


TOLD, OPEN = [1.0, 1.2, 1.1], [1.0, -1.2, 1.1]


def test_a_difference_is_a_number_or_undecided():
    assert seen.points(TOLD) == "+1.1 ± 0.1"
    assert seen.points([-gain for gain in TOLD]) == "-1.1 ± 0.1"
    assert seen.points(OPEN) == "undecided (+0.3 ± 1.3)"
    assert seen.points([4.0]) == "undecided (+4.0)"


def test_what_is_undecided_is_left_out():
    panels = {"own": {"a": OPEN, "b": TOLD}, "others": {"a": OPEN}}
    assert seen.decided(panels) == {"own": {"b": TOLD}}
    assert seen.decided({"own": {"a": OPEN}}) == {}


def test_over_rounds_is_the_end_minus_the_start():
    moments = [moment(0, "end", 0.5, 0.1), moment(1, "after_collaborate", 0.9, 0.9),
               moment(1, "end", 0.7, 0.4)]  # fmt: skip
    other = [moment(0, "end", 0.5, 0.3), moment(1, "end", 0.4, 0.3)]
    runs = [result(0, accuracy=moments), result(1, accuracy=other)]
    assert seen.over_rounds(runs) == pytest.approx([20, -10])
    assert seen.over_rounds(runs, "inter") == pytest.approx([30, 0])


def test_fccl_stands_beside_its_rivals_and_the_paper():
    def runs(away, home):
        return [result(seed, inter=away + seed / 1000, intra=home) for seed in range(3)]

    mini = {"fccl": runs(0.5, 0.7), "solo": runs(0.3, 0.8), "fedmd": runs(0.5, 0.7)}
    mini["feddf"] = mini["fedmd"]
    partial = mini | {"solo": runs(0.4, 0.7)}
    table = seen.beside_rivals(mini, partial)
    places = ("mini", "partial", "paper")
    assert list(table) == [f"others' digits, {place}" for place in places]
    alone = table.loc["FCCL minus trained alone"]
    assert alone.iloc[0].startswith("+20.0") and alone.iloc[1].startswith("+10.0")
    assert table["others' digits, paper"].tolist() == ["+7.8", "+7.1", "+3.1", "+0.7", "+4.8"]
    own = seen.beside_rivals(mini, partial, "intra")
    assert list(own) == [f"own digits, {place}" for place in places]
    alone = own.loc["FCCL minus trained alone"]
    assert alone.iloc[0].startswith("-10.0") and alone.iloc[1].startswith("undecided")
    with pytest.raises(SettingError, match="unknown key 'int'"):
        seen.beside_rivals(mini, partial, "int")
    assert own["own digits, paper"].tolist() == ["+12.6", "+5.1", "+2.9", "+7.6", "+9.7"]
    assert table.loc["FedMD minus trained alone"].iloc[0].startswith("+20.0")


def test_at_home_is_the_climb_after_the_public_half():
    moments = [moment(0, "end", 0.9, 0), moment(1, "after_collaborate", 0.5, 0),
               moment(1, "end", 0.6, 0), moment(2, "after_collaborate", 0.4, 0),
               moment(2, "end", 0.7, 0)]  # fmt: skip
    assert seen.at_home([result(0, accuracy=moments)]) == pytest.approx([20])


def test_the_mean_over_rounds_is_of_their_ends():
    moments = [moment(0, "end", 0.9, 0), moment(1, "after_collaborate", 0.1, 0),
               moment(1, "end", 0.6, 0), moment(2, "end", 0.7, 0)]  # fmt: skip
    assert seen.mean_over_rounds([result(0, accuracy=moments)]) == pytest.approx([65])


def test_on_photographs_is_the_change_since_the_end_of_the_round_before():
    moments = [moment(0, "end", 0.9, 0.1), moment(1, "after_collaborate", 0.5, 0.2),
               moment(1, "local_epoch", 0.6, 0.3), moment(1, "after_local", 0.7, 0.4),
               moment(2, "after_collaborate", 0.5, 0.6),
               moment(2, "after_local", 0.8, 0.8)]  # fmt: skip
    runs = [result(0, accuracy=moments)]
    assert seen.on_photographs(runs) == pytest.approx([-30])
    assert seen.on_photographs(runs, "inter") == pytest.approx([15])
    assert seen.at_home(runs, "inter") == pytest.approx([20])


def test_through_rounds_begins_where_a_round_ended():
    def one(r, after, trained):
        return [moment(r, "after_collaborate", after, 0.1),
                moment(r, "local_epoch", trained, 0.3), moment(r, "after_local", 0, 0)]  # fmt: skip

    moments = [*one(1, 0.2, 0.5), *one(2, 0.3, 0.6), *one(3, 0.4, 0.8)]
    curves = seen.through_rounds([result(0, accuracy=moments)], 1)
    assert curves["own digits"].tolist() == [pytest.approx([0, -20, 10, -10, 30])]
    assert curves["digits of others"].tolist() == [pytest.approx([0, -20, 0, -20, 0])]


def test_the_last_look_and_what_crossed():
    looks = [[{"a": {"b": 1}}, {"a": {"b": 2}}], [{"a": {"b": 5}}, {"a": {"b": 3}}]]
    assert seen.last(looks, "a", "b").tolist() == [2, 3]
    rows = [{"name": "logits", "bytes": 8}, {"name": "logits", "bytes": 4}]
    assert seen.crossed([result(0, rows=rows)]).loc["logits"].tolist() == [4, 8]


def test_same_answer_is_a_mean_over_pairs():
    z = torch.eye(3)
    assert seen.same_answer({"a": z, "b": z, "c": z[[1, 0, 2]]}) == pytest.approx((1 + 2 / 3) / 3)
