"""What notebook 02 reads out of a federation and out of results."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.federations import federation

from fedtutor import losses
from fedtutor.notebook import seen_fccl_plus as inside
from fedtutor.papers import weakest


def result(seed, intra=0.5, inter=0.5, accuracy=()):
    """As much of a `Result` as these functions read: two clients on two domains."""
    history = {"tests": ["a", "b"], "domains": ["a", "b"], "accuracy": list(accuracy)}
    return SimpleNamespace(seed=seed, headline={"intra": intra, "inter": inter}, history=history)


def moment(round_, name, own, other):
    return {"round": round_, "moment": name, "matrix": [[own, other], [other, own]]}


def test_a_lead_counts_shared_seeds_and_one_rival_for_all_of_them():
    runs = {
        "fccl+": [result(0, inter=0.5), result(1, inter=0.7), result(2, inter=0.9)],
        "fccl": [result(0, inter=0.4), result(1, inter=0.8)],
        "solo": [result(1, inter=0.1), result(0, inter=0.6)],
    }
    leads = inside.leads(runs, "inter", ["fccl", "solo"])
    assert list(leads) == [
        "FCCL+ less FCCL on the digits of others",
        "FCCL+ less training alone on the digits of others",
    ]
    values, says = inside.deciding(leads)
    assert values is leads and weakest(leads) == next(iter(leads))
    assert says == (
        "FCCL+ less FCCL on the digits of others, the comparison that decides: {value} points."
    )


def test_what_decides_is_the_comparison_that_fails_and_not_the_smallest_of_each_seed():
    comparisons = {"a less b": [-3.0, 5.0, 1.0], "a less c": [-1.0, -1.1, -0.9]}
    values, says = inside.deciding(comparisons, " (judged)")
    assert values is comparisons and weakest(values) == "a less c"
    assert says == "A less c, the comparison that decides (judged): {value} points."


def test_points_say_what_the_seeds_decide():
    assert inside.points([1.0, 1.1, 1.2]) == "+1.1 ± 0.1 points"
    assert inside.points([-1.0, -1.1, -1.2]) == "-1.1 ± 0.1 points"
    assert inside.points([-1.0, 1.1, -1.0]) == "undecided (-0.3 ± 1.2 points)"
    assert inside.points([1.0, -1.1, 1.0]) == "undecided (+0.3 ± 1.2 points)"


def test_a_lead_by_client_is_that_of_each_client():
    runs = {
        "fccl+": [result(0, accuracy=[moment(1, "end", 0, 0.5)])],
        "fccl": [result(0, accuracy=[moment(1, "end", 1, 0.3)])],
    }
    leads = inside.leads_by_client(runs, ["fccl"])
    assert list(leads) == ["a", "b"]
    phrase = "FCCL+ less FCCL on the digits of others, a client"
    assert leads["a"] == {phrase: pytest.approx([20])}


def test_a_lead_by_client_leaves_out_a_seed_that_not_all_have():
    def run(seed, other):
        return result(seed, accuracy=[moment(1, "end", 1.0, other)])

    runs = {"fccl+": [run(0, 0.5), run(1, 0.6), run(3, 0.9)], "fccl": [run(0, 0.4), run(1, 0.4)]}
    for found in inside.leads_by_client(runs, ["fccl"]).values():
        assert list(found.values()) == [pytest.approx([10, 20])]


def test_halves_repeat_the_last_round_for_who_trains_alone():
    talks = [
        moment(0, "end", 0.1, 0), moment(1, "after_collaborate", 0.2, 0), moment(1, "end", 0.3, 0)
    ]  # fmt: skip
    alone = [moment(0, "end", 0.1, 0), moment(1, "end", 0.4, 0)]
    assert inside.halves([result(0, accuracy=talks)]) == pytest.approx(np.array([[20, 30]]))
    assert inside.halves([result(0, accuracy=alone)]) == pytest.approx(np.array([[10, 40]]))


def test_highest_and_calmest_compares_with_each_rival_in_both():
    calm, wild = np.array([[0, 5, 0, 5, 0, 5.0]]), np.array([[0, 1, 0, 9, 0, 4.0]])
    found = inside.highest_and_calmest({"fccl+": calm, "fedmd": wild, "fccl": calm})
    assert {name: float(values[0]) for name, values in found.items()} == {
        "FCCL+ less FedMD after the last round": 1.0,
        "fluctuation of FedMD less that of FCCL+": 6.5,
        "FCCL+ less FCCL after the last round": 0.0,
        "fluctuation of FCCL less that of FCCL+": 0.0,
    }
    restless = inside.highest_and_calmest({"fccl+": wild + 2, "fedmd": calm, "fccl": calm})
    assert float(restless["fluctuation of FedMD less that of FCCL+"][0]) == -6.5


def test_a_teacher_that_is_surer_of_the_label_helps_it():
    student, y = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0])
    teacher = torch.tensor([[3.0, 0.0], [0.0, 0.0]])
    pull = inside.pull(student, y, teacher, tau=2.0)
    assert pull[0] < 0 < pull[1]
    found = {"begins": (student, y, teacher)}
    assert inside.fights(found, tau=2.0) == {"begins": 0.5}


@pytest.fixture
def fed():
    fed = federation("fccl+")
    fed.begin()
    return fed


def test_a_look_at_the_first_round_leaves_the_federation_as_it_was(fed):
    before = [w.clone() for w in fed.clients[0].model.state_dict().values()]
    found = inside.first_round(fed)
    after = fed.clients[0].model.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert fed.round_ == 0 and not fed.channel.table()
    assert found.keys() == {"on itself", *inside.MOMENTS}
    assert all(0 <= share <= 1 for share in found.values())
    itself = [float(losses.instance_similarity(inside.features(c.model, inside.photographs(fed)))
                    .softmax(1).diagonal().mean()) for c in fed.clients]  # fmt: skip
    assert found["on itself"] == pytest.approx(np.mean(itself), rel=1e-4)
    fed.begin_round(1)
    assert inside.first_round(fed) == {}


def test_sides_says_on_how_many_images_the_teacher_fights():
    figure = inside.sides({"x": [-1.0, -0.5, 0.5, -0.1]}, title="Two words")
    assert figure.axes[0].get_title(loc="left") == "x: fights on 25 %"
    right = [bar for bar in figure.axes[0].patches if bar.get_x() >= 0]
    assert sum(bar.get_height() for bar in right) == 1
    assert 0 in [bar.get_x() for bar in right]  # no bar lies across zero
