"""What notebook 06a sees: attacks on small rounds, and tables and sheets of what was found."""

import math

import numpy as np
import pytest
import torch

from fedtutor import attacks
from fedtutor.errors import SettingError
from fedtutor.experiments import attack_list
from fedtutor.notebook import seen_inversion as seen
from fedtutor.notebook import seen_inversion_tables as shown


@pytest.fixture(scope="module")
def one():
    return seen.attacked(0, count=1)


@pytest.fixture(scope="module")
def batch():
    return seen.attacked(0, count=8, steps=40)


def made(decibels, y):
    """An `Attacked` whose images have these dB."""
    images = torch.full((len(y), 1, 4, 4), 0.5, dtype=torch.float64)
    errors = torch.tensor([10 ** (-v / 20) for v in decibels], dtype=torch.float64)
    return seen.Attacked(images + errors.view(-1, 1, 1, 1), images, torch.tensor(y), True)


# ------------------------------------------------------------------------------------- attacks


def test_a_digit_alone_comes_back(one):
    assert one.right and one.found.shape == (1, 1, 28, 28)
    assert float(one.decibels) > shown.EXACT
    assert float(one.decibels) > 20 + float(seen.guessed([0])[0])


def test_with_noise_it_does_not(one):
    hidden = seen.attacked(0, count=1, noise=1.0)
    assert torch.equal(hidden.originals, one.originals)
    assert float(hidden.decibels) < float(seen.guessed([0])[0])


def test_what_crosses_is_the_gradient():
    network, way = seen.update(seen.overheard(0, count=1))
    scene, _ = seen.digits(0, 1)
    private = scene.clients[0].private
    exact = attacks.gradient(network, scene.inputs(private.x), private.y)
    for sent, g in zip(way, exact, strict=True):
        torch.testing.assert_close(sent / seen.LR, g.detach(), rtol=1e-3, atol=1e-5)


def test_labels_go_with_the_originals_they_were_paired_with(batch):
    scene, norm = seen.digits(0, 8)
    private = scene.clients[0].private
    true = attacks.unit(scene.inputs(private.x), *norm)
    for original, label in zip(batch.originals, batch.y, strict=True):
        at = int((true == original).flatten(1).all(1).nonzero()[0])
        assert label == private.y[at]
    assert not torch.equal(batch.y, private.y), "the attacker's order is another one"


def test_every_case_attacks_once_per_seed():
    found = seen.every_case([0, 1], {"two": {"count": 2, "steps": 3}})
    assert [len(found["two"]), len(found["two"][0].found)] == [2, 2]


def test_noise_hides_step_by_step():
    true, found, left = seen.with_noise([0.0, 0.03], 0)
    assert true.shape == (1, 1, 28, 28) and found.shape == (2, 1, 28, 28)
    assert left[0] > shown.EXACT > left[1] + 20


def test_the_true_images_cost_nothing_only_with_all_knowledge():
    cost = seen.knowledge()
    assert cost.pop("nothing") < 1e-5
    assert min(cost.values()) > 1e-3
    small, large = (cost[f"that there are four steps, of rate {lr}"] for lr in (0.1, 0.5))
    assert small < 0.1 and large > 0.9  # small steps add up to one; large ones do not


def test_a_virtual_image_is_found_and_is_no_private_one():
    rows, found = seen.raw_and_virtual([0])
    assert {len(row) for row in rows.values()} == {1} and len(rows) == 5
    assert found["raw"][0] > 30 and found["virtual"][0] > 30 > found["virtual, private"][0]
    assert 10 < found["virtual, unseen"][0] < 30


def test_the_mean_of_one_image_names_it():
    assert seen.named([0]).tolist() == [1.0]


# --------------------------------------------------------------------------- numbers and tables


def test_decibels_are_means_over_the_images_of_a_seed():
    assert seen.decibels([made([10, 30], [1, 2]), made([40], [3])]) == pytest.approx([20, 40])


def test_by_class_parts_digits_that_share_a_class():
    pair = [made([30, 10, 20], [1, 2, 2]), made([30, 30], [1, 2]), made([40, 12], [5, 5])]
    alone, shared = seen.by_class(pair)
    assert (alone, shared) == (pytest.approx([30]), pytest.approx([15]))
    with pytest.raises(SettingError, match="both kinds"):
        seen.by_class(pair[1:])


def test_a_guess_is_the_average_of_the_other_digits():
    scene, norm = seen.digits(1)
    x = attacks.unit(scene.inputs(scene.clients[0].private.x), *norm).double()
    error = float((x[1:].mean(0) - x[0]).square().mean())
    assert seen.guessed([1])[0] == pytest.approx(-10 * math.log10(error), rel=1e-4)


def test_errors_of_known_size():
    levels = [40, 20, 10]
    image = torch.linspace(0, 1, 784).view(1, 28, 28)
    found = shown.at_decibels(image, levels)
    assert attacks.psnr(found, image.expand(3, 1, 28, 28)).tolist() == pytest.approx(levels, 1e-4)
    assert float(found.min()) >= 0 and float(found.max()) <= 1
    with pytest.raises(SettingError):
        shown.at_decibels(image, [3])


CASES = {
    "one digit": [made([80], [1]), made([70], [2])],
    "a batch of 8": [made([40, 10, 12], [1, 2, 2]), made([42, 11, 13], [1, 2, 2])],
    "a batch of 16": [made([18], [1]), made([19], [2])],
    "one digit, five steps": [made([80], [1]), made([70], [2])],
    "8 digits, two epochs, 4 a step": [made([10], [1]), made([30], [2])],
    "one digit, noise of 1": [made([8], [1]), made([7.1], [2])],
    "one digit, FedLGD's ConvNet": [made([10], [1]), made([9.4], [2])],
}


def test_the_title_turns_round():
    guess = np.array([13.0, 12.0])
    assert shown.title(CASES, guess) == (
        "A single digit comes back exactly, with noise of 1 as dots; in a batch, better without "
        "another of its class"
    )
    weak = CASES | {"one digit": [made([20], [1]), made([21], [2])]}
    assert shown.title(weak, guess - 10.0) == (
        "A single digit comes back in part, with noise of 1 in part; in a batch, better without "
        "another of its class"
    )


def test_the_other_titles_turn_round():
    assert shown.title_of_noise([70.0, 20.0, 8.0]).endswith("exactly; with noise it fades away")
    assert shown.title_of_noise([20.0, 21.0]).endswith("in part; noise does not hide it")
    assert shown.title_of_decibels(13.0, 10).endswith("the digit has 10, a guess 13")
    assert shown.title_of_decibels(13.0, 20).startswith("Fewer dB are harder")
    for raw, words in ((70.0, "and virtual images, too"), (30.0, "does not find raw images")):
        found = {"raw": [raw, raw + 1, raw + 2], "virtual": [50.0, 52.0, 53.0]}
        assert words in shown.title_of_raw_and_virtual(found)


def test_what_hides_is_computed():
    batch, steps, epochs, convnet, _ = shown.what_hides(CASES, np.array([13.0, 12.5]))
    assert "a batch of 16 has 2.83 ± 0.24 dB less" in batch
    assert "hide nothing" in steps and epochs.endswith("is undecided (+1 ± 13 dB).")
    assert "*less* than the guess" in convnet
    assert "more than the guess" in shown.what_hides(CASES, np.array([8.0, 7.4]))[3]
    assert "is undecided" in shown.what_hides(CASES, np.array([10.0, 11.5]))[3]


def test_table_and_sheet_show_the_same_attacks():
    table = shown.table(CASES, [13.0, 12.0])
    assert table.loc["one digit", "PSNR (dB)"] == "75 ± 7"
    assert list(table["labels right"]) == ["2 of 2"] * len(CASES) + ["-"]
    rows = shown.compared(CASES)
    assert list(rows)[:3] == ["batch of 8, true", "batch of 8, found", "one digit, true"]
    assert {name: len(row) for name, row in rows.items()}["noise of 1, found"] == 2
    assert shown.sheet(rows, title="two words").get_axes()


def test_recorded_photographs_are_read_as_decibels():
    study = attack_list.study("pictures-cifar10")
    found = shown.photographs(study)
    first = study["seeds"][0]
    assert found["raw"][0] == first["raw"]["to used"]["PSNR"]
    near = first["distilled"]["nearest private"]
    assert found["virtual, private"][0] == pytest.approx(-10 * math.log10(near))


def test_two_data_sets_are_told_once_where_they_agree():
    near = {"raw": np.array([70.0, 71.0, 72.0]), "virtual": np.array([60.0, 62.0, 61.0])}
    far = {"raw": np.array([70.0, 71.0, 72.0]), "virtual": np.array([72.0, 70.0, 71.0])}
    words = {"above": "raw is nearer", "below": "raw is farther", "unclear": "it is undecided"}
    said = shown.with_both({"A": near, "B": near}, "raw", "virtual", **words)
    assert said == "With both data sets, raw is nearer."
    said = shown.with_both({"A": near, "B": far}, "raw", "virtual", **words)
    assert said == "With A, raw is nearer; with B, it is undecided."


def test_the_strongest_message_of_each_method_is_told():
    study = {f"{name}: a": [0.5, 0.6] for name in shown.PROMISES}
    study["fedcsd: b"] = [0.9, 0.9]
    column = shown.what_is_sent(study).iloc[:, -1]
    assert column["FedCSD"] == "90 ± 0" and column["FCCL+"] == "55 ± 7"
    with pytest.raises(SettingError, match="nothing recorded"):
        shown.what_is_sent({})


def test_messages_without_weights_are_judged_by_the_comparison_that_decides():
    study = {"fedavg: a": [0.7, 0.72, 0.71], "fccl+: a": [0.5, 0.51, 0.5]}
    study |= {"repshare: a": [0.5, 0.5, 0.51], "fccl: a": [0.6, 0.61, 0.62]}
    assert "that of FCCL, the nearest, is +10" in shown.without_weights(study)
    for rival, words in (
        ([0.5, 0.7, 0.6], "stays open is with FCCL: FedAvg's AUC minus that of FCCL is +11"),
        ([0.8, 0.83, 0.81], "Not every"),
    ):
        assert words in shown.without_weights(study | {"fccl: a": rival})


def test_the_footer_names_data_and_seeds():
    assert shown.footer("digits", [0]) == "digits · quick · seed 0"
    assert shown.footer("digits", [0, 3]) == "digits · quick · seeds 0, 3"
