"""Passes are counted where they happen, whoever asks for them, and evaluation is left out."""

import pytest
import torch
from support.federations import federation, tiny_scenario
from support.runs import Stop, stop_after

from fedtutor import models, rounds
from fedtutor.engine.counting import Work, images_in, uncounted
from fedtutor.experiments.run import run

IMAGES = sum(24 + 3 * i for i in range(3))  # private ones of the tiny scenario
PUBLIC = 3 * 20  # public images, each seen by three clients


def counted(method, *, play=2, **options) -> tuple[int, int]:
    """(forward, backward) of the last of `play` rounds with two local epochs."""
    fed = federation(method, rounds=play, eval_every=play, **options)
    seen = {}

    def last(numbers):
        for number in numbers:
            with Work() as seen["work"]:
                yield number

    rounds.run(fed, progress=last)
    return seen["work"].forward, seen["work"].backward


@pytest.mark.parametrize("method, parameters, forward, backward", [
    ("solo", {}, 2 * IMAGES, 2 * IMAGES),
    ("fedavg", {}, 2 * IMAGES, 2 * IMAGES),
    ("moon", {}, (2 + 2) * IMAGES, 2 * IMAGES),  # two fixed networks see each image once
    ("kd", {}, 2 * IMAGES + PUBLIC, 2 * IMAGES + PUBLIC),
    ("fml", {"meme": "linear"}, 2 * 2 * IMAGES, 2 * 2 * IMAGES),
    ("fccl+", {}, (2 + 1) * IMAGES + PUBLIC, 2 * IMAGES + PUBLIC),
    ("fd", {}, 3 * IMAGES, 2 * IMAGES),  # one pass for the means of the classes
    ("ewc", {"fccm": False, "fisl": False}, 3 * IMAGES, 3 * IMAGES),  # one gradient per image
])  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_passes_by_hand(method, parameters, forward, backward, threads):
    found = counted(method, parameters=parameters, threads=threads, models=["hidden"])
    assert found == (forward, backward)


def test_evaluation_is_no_work():
    plain = counted("fedavg")
    assert counted("fedavg", observe=["after_local", "local_epoch"]) == plain


def test_seconds_are_those_of_the_block_without_what_is_uncounted():
    def busy():
        sum(range(1_000_000))

    with Work() as all_of_it:
        busy()
        busy()
    with Work() as half:
        busy()
        with uncounted():
            busy()
    assert 0 < half.cpu_seconds < all_of_it.cpu_seconds
    before = half.as_dict()
    busy()
    assert half.as_dict() == before


def test_images_are_counted_inside_vmap():
    seen = []
    torch.func.vmap(lambda x: (seen.append(images_in(x[None])), x.sum())[1])(torch.ones(7, 1, 4, 4))
    assert seen == [7] and images_in(torch.ones(5, 3, 8, 8)) == 5


def test_nothing_is_counted_where_nobody_asks():
    model = models.build("linear", num_classes=3, in_channels=1, image_size=4,
                         generator=torch.Generator())  # fmt: skip
    work = Work()
    model(torch.ones(2, 1, 4, 4))
    assert (work.forward, work.backward) == (0, 0)
    with work, torch.no_grad():
        model(torch.ones(2, 1, 4, 4))
    assert (work.forward, work.backward) == (2, 0)


def test_a_result_holds_its_work_unless_it_was_resumed(tmp_path):
    from fedtutor.experiments import recipes

    recipe = recipes.load("start", profile="quick", overrides={"rounds": 2, "lr": 0.05,
                                                               "models": ["linear"]})  # fmt: skip
    scenario = tiny_scenario()
    object.__setattr__(scenario, "name", "digits-mini")
    options = {"seed": 0, "scenario": scenario, "threads": 1}
    whole = run(recipe, "fedavg", **options)
    assert whole.totals["work"]["forward"] == 2 * 2 * IMAGES
    assert whole.totals["start"]["forward"] == 0
    assert 0 < whole.totals["start"]["peak_memory"] <= whole.totals["peak_memory"]
    ahead = run(recipe.change({"solo.pretrain_epochs": 3}), "solo", **options)
    assert ahead.totals["start"]["backward"] == 3 * IMAGES
    assert ahead.totals["work"] | {"cpu_seconds": 0} == whole.totals["work"] | {"cpu_seconds": 0}

    with pytest.raises(Stop):
        run(recipe, "fedavg", checkpoint=rounds.Checkpoints(tmp_path, 0), progress=stop_after(1),
                     **options)  # fmt: skip
    resumed = run(recipe, "fedavg", checkpoint=tmp_path, **options)
    assert resumed.history["accuracy"] == whole.history["accuracy"]
    assert not {"work", "start"} & resumed.totals.keys()
