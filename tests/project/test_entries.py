"""What somebody met who used the package as a researcher would, and junk in every place.

Mistakes that are one call each are in the table of test_mistakes.py.
"""

import threading
import warnings
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st
from support.federations import (
    NETWORKS,
    Called,
    assert_same_bits,
    images,
    settings,
    tiny_scenario,
    weights_of,
)
from torch import nn

from fedtutor import methods, models, rounds, scenarios
from fedtutor.datasets import bundled, sources
from fedtutor.datasets.arrays import Pixels
from fedtutor.datasets.sources import Source
from fedtutor.distillation import VirtualImages
from fedtutor.engine.workers import device_of
from fedtutor.errors import DataError, FedtutorError, ModelError, SettingError, TrainingError
from fedtutor.federation import Federation
from fedtutor.images import Images
from fedtutor.methods import make
from fedtutor.methods.fedavg import FedAvg
from fedtutor.models import Architecture, layers, networks
from fedtutor.scenarios.base import ClientData, Scenario, build
from fedtutor.settings import FIELDS, Settings

pytestmark = pytest.mark.usefixtures("own_tables")


def fed(method="fedavg", **changes) -> Federation:
    return Federation(tiny_scenario(), make(method), settings(**changes))


# ------------------------------------------------------------------------------- register


def define(name: str, parent=FedAvg):
    """As a notebook's cell does, which may be run again."""

    @methods.register(name)
    @dataclass
    class Mine(parent):
        strength: float = 1.0

    return Mine


def test_a_parameter_of_ones_own_is_recorded_where_dataclass_is_not_forgotten():
    define("mine")
    assert methods.parameters("mine")["strength"] == 1.0  # what is not refused is there
    with pytest.raises(SettingError, match="no @dataclass of its own"):

        @methods.register("mine")
        class Forgotten(FedAvg):
            strength: float = 2.0


def test_dataclass_above_register_is_too_late():
    with pytest.raises(SettingError, match="above @dataclass above class Late"):

        @dataclass
        @methods.register("mine")
        class Late(FedAvg):
            strength: float = 2.0


def test_replacing_a_method_of_the_suite_warns_once_and_a_cell_that_runs_again_does_not():
    with pytest.warns(UserWarning, match="'fedavg' is a method of the suite"):
        define("fedavg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        define("fedavg")
        for _ in range(2):
            define("mine")


def test_replacing_a_network_or_a_scenario_of_the_suite_warns():
    own = Architecture(lambda channels, size: nn.Flatten(), "ours", 4)
    with pytest.warns(UserWarning, match="'small_cnn' is a network of the suite"):
        models.register("small_cnn", own)
    with pytest.warns(UserWarning, match="'mnist-mini' is a scenario of the suite"):
        scenarios.register("mnist-mini")(tiny_scenario)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert models.register("mine", own) is own is models.MODELS["mine"]
            scenarios.register("mine")(tiny_scenario)
            scenarios.register("mnist-mini")(tiny_scenario)


def test_a_helper_is_no_misspelt_hook():
    @methods.register("mine")
    @dataclass
    class Helped(FedAvg):
        def loss_of_others(self, client):
            return 0

        def _agregate(self):
            return 0

        def shares(self, fed, clients):  # a helper of FedAvg, replaced
            return [1] * len(clients)

    assert make("mine").loss_of_others(None) == 0


@pytest.mark.parametrize("hook", methods.base.HOOKS)
@pytest.mark.parametrize("slip", ["left out", "twice", "swapped", "camel"])
def test_a_slip_in_a_hooks_name_is_noticed(hook, slip):
    middle = len(hook) // 2
    wrong = {
        "left out": hook[:middle] + hook[middle + 1 :],
        "twice": hook[:middle] + hook[middle] + hook[middle:],
        "swapped": hook[: middle - 1] + hook[middle] + hook[middle - 1] + hook[middle + 1 :],
        "camel": hook.title().replace("_", ""),
    }[slip]
    members = {wrong: lambda self, *_: None}
    with pytest.raises(SettingError, match=rf"did you mean '{hook}'"):
        methods.register("mine")(dataclass(type("Mine", (FedAvg,), members)))


# ------------------------------------------------------------------------------- networks


def own_network(make_layers) -> None:
    models.register("mine", Architecture(make_layers, "ours", 4))


def test_the_dropout_of_a_networks_own_gives_equal_bits():
    """PyTorch's is refused by name, and what the message names keeps the promise."""
    foreign = Architecture(lambda c, s: nn.Sequential(nn.Flatten(), nn.Dropout(0.5)), "ours", 4)
    models.MODELS["foreign"] = foreign  # whoever passes `register` by is told all the same
    with pytest.raises(
        ModelError, match=r"global random numbers(.*\n)*.*fedtutor.models.layers.Dropout"
    ):
        fed(models=["foreign"])
    own_network(lambda c, s: nn.Sequential(nn.Flatten(), layers.Dropout(0.5)))
    played = []
    for threads in (1, 2):
        played.append(Federation(tiny_scenario(), make("fedavg"), settings(models=["mine"]),
                                 threads=threads))  # fmt: skip
        rounds.run(played[-1])
    assert_same_bits(*map(weights_of, played))


def test_a_dropout_that_drops_nothing_is_let_in():
    own_network(lambda c, s: nn.Sequential(nn.Flatten(), nn.Dropout(0.0)))
    assert fed(models=["mine"]).clients


class Scaled(nn.Module):
    """A weight and a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.empty(16))
        self.register_buffer("shift", torch.empty(16))

    def draw_weights(self, generator):
        self.scale.normal_(generator=generator)
        self.shift.zero_()

    def forward(self, x):
        return self.scale * x.flatten(1) + self.shift


def test_prelu_and_weights_of_ones_own_are_drawn():
    """PReLU simply works, a weight of one's own with a method that draws it."""
    own_network(
        lambda c, s: nn.Sequential(Called(lambda x: x[:, :1]), Scaled(), nn.PReLU(init=0.1))
    )
    first, again = fed(models=["mine"]), fed(models=["mine"])
    body = first.clients[0].model.body
    assert body[2].weight.item() == pytest.approx(0.1) and body[1].scale.std() > 0
    assert not body[1].shift.any()
    assert_same_bits(weights_of(first), weights_of(again))
    before = body[1].scale.clone()
    rounds.run(first)
    assert not torch.equal(before, body[1].scale)


def test_every_network_of_the_suite_and_of_the_tests_may_be_registered():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, network in {**networks.OURS, **NETWORKS}.items():
            if name not in ("alexnet_bn", "resnet50", "googlenet", "efficientnet_b0"):  # large
                assert models.register(name, network) is network


def test_register_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    own_network(lambda c, s: nn.Sequential(nn.Flatten(), nn.Linear(c * s * s, 3)))
    fed(models=["mine"])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("wrong", [None, 0.5, "none", "detached"])
@pytest.mark.parametrize("batch", ["first", "later"])
def test_a_loss_that_cannot_be_names_method_and_client(wrong, batch):
    """In whichever batch it comes."""

    @dataclass
    class Mine(FedAvg):
        name = "mine"

        def local_loss(self, client, x, y):
            z = client.model(x)
            if batch == "later" and client.steps < 2:
                return nn.functional.cross_entropy(z, y)
            if wrong == "none":
                return nn.functional.cross_entropy(z, y, reduction="none")
            return nn.functional.cross_entropy(z.detach(), y) if wrong == "detached" else wrong

    with pytest.raises(TrainingError, match=r"client domain0(.*\n)*.*mine, round 1"):
        rounds.run(Federation(tiny_scenario(), Mine(), settings()))


def test_an_error_inside_the_backward_pass_stays_as_it_is():
    @dataclass
    class Mine(FedAvg):
        def local_loss(self, client, x, y):
            loss = super().local_loss(client, x, y)
            loss.register_hook(lambda grad: 1 / 0)
            return loss

    with pytest.raises(ZeroDivisionError):
        rounds.run(Federation(tiny_scenario(), Mine(), settings()))


# ------------------------------------------------------------------------------- scenarios


def test_what_is_printed_is_one_short_line():
    scenario = build("digits-mini", private_size=20)
    shown = [scenario, scenario.public, scenario.clients[0], VirtualImages(torch.ones(1, 1, 4, 4),
             torch.zeros(1).long())]  # fmt: skip
    for value in shown:
        assert "\n" not in repr(value) and len(repr(value)) < 120 and str(value) == repr(value)
    assert "digits-mini" in repr(scenario) and "3 x 32 x 32" in repr(scenario)
    assert "512 x [3, 32, 32]" in repr(scenario.public)
    assert "ClientData('mnist'" in repr(scenario.clients[0])


def test_lists_stand_for_tuples_and_run():
    scenario = tiny_scenario()
    listed = replace(scenario, clients=list(scenario.clients), mean=[0.5], std=[0.25],
                     class_names=["0", "1", "2"])  # fmt: skip
    assert listed.mean == (0.5,) and listed.fingerprint == scenario.fingerprint
    assert torch.equal(listed.normalize(images(2, seed=0).x),
                       scenario.normalize(images(2, seed=0).x))  # fmt: skip
    assert Settings(models=("linear", "linear")) == Settings(models=["linear", "linear"])


@tried(max_examples=60, deadline=None)
@given(n=st.integers(1, 3), h=st.integers(1, 9), w=st.integers(1, 9), c=st.integers(1, 9))
def test_arrays_are_channels_last_or_refused(n, h, w, c):
    """What is taken has more rows than channels, and each pixel where it was."""
    array = np.arange(n * h * w * c, dtype=np.uint64).astype(np.uint8).reshape(n, h, w, c)
    try:
        taken = bundled.from_arrays(array, np.zeros(n, int), "mine")
    except DataError as error:
        assert h <= c and "channels come last" in str(error)
        return
    assert h > c or h == w == c == 1
    assert torch.equal(taken.x, torch.from_numpy(array).permute(0, 3, 1, 2))


def test_auto_is_a_device_wherever_one_is_asked_for():
    auto = device_of("auto")
    assert Federation(tiny_scenario(), make("solo"), settings(), device="auto").device.type == auto
    assert tiny_scenario().to("auto").public.x.device.type == auto
    assert device_of(torch.device("cpu")) == "cpu"


# ------------------------------------------------------------------------------- unread, unselected


def small_source(pixels_read: list) -> Source:
    def blocks(rows, size):
        pixels_read.append(len(rows))
        yield np.full((len(rows), size, size), 7, np.uint8)

    return Source("mine/train", "mine", Pixels(np.arange(6) % 3, blocks), whole=True)


def test_images_that_were_never_read_cannot_be_looked_at():
    read = []
    with sources.without_pixels():
        taken = small_source(read).take(torch.tensor([4, 1]), size=8)
    assert not read
    assert taken.x.shape == (2, 3, 8, 8) and taken.y.tolist() == [1, 1] and not taken.read
    for look in (lambda: taken.fingerprint, lambda: taken.to("cpu"), lambda: taken[:1].fingerprint):
        with pytest.raises(DataError, match="never read"):
            look()
    with pytest.raises((NotImplementedError, RuntimeError)):
        taken.x.tolist()
    scenario = Scenario(
        name="mine", title="never read", num_classes=3, clients=(ClientData("a", "a", taken),),
        tests={"a": taken}, public=None, mean=(0.5,) * 3, std=(0.5,) * 3, stand_in=False,
        class_names=("0", "1", "2"),
    )  # fmt: skip
    with pytest.raises(DataError, match="never read"):
        Federation(scenario, make("solo"), settings())


def test_reading_nothing_in_one_thread_leaves_the_others_their_pixels():
    """A global made the images of everybody black."""
    read, taken = [], []
    with sources.without_pixels():
        other = threading.Thread(
            target=lambda: taken.append(small_source(read).take(torch.arange(6), size=8))
        )
        other.start()
        other.join()
    assert read == [6] and (taken[0].x == 7).all()


def test_reading_nothing_ends_where_it_began_also_inside_another_and_after_an_error():
    read = []
    with sources.without_pixels():
        with pytest.raises(ZeroDivisionError), sources.without_pixels():
            small_source(read).take(size=8)
            raise ZeroDivisionError
        assert not small_source(read).take(size=8).read
    assert not read
    assert (small_source(read).take(size=8).x == 7).all() and read == [6]


def test_an_empty_selection_names_select():
    @dataclass
    class Nobody(FedAvg):
        name = "nobody"

        def select(self, fed):
            return []

    federation = Federation(tiny_scenario(), Nobody(), settings())
    with pytest.raises(SettingError, match=r"select returned \[\](.*\n)*.*nobody, round 1"):
        rounds.run(federation)


# ------------------------------------------------------------------------------- junk everywhere

NUMBERS = [0, 1, -1, 3.5, 1e308, float("nan"), float("inf"), True, False]
JUNK = st.one_of(
    st.sampled_from([None, "", "a", "auto", b"a", (), [], {}, set(), [None], [1, "a"], {"a": 1}]),
    st.sampled_from(NUMBERS), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from([int, FedAvg, make, object(), torch.ones(2), np.ones(2), np.int64(3)]),
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.floats()), max_size=3),
    st.sampled_from([images(3, seed=0), nn.Flatten(), Settings()]),
)  # fmt: skip
MANY = tried(max_examples=300, deadline=None,
             suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip


def ours_or_right(call):
    """The value, or None where the call was refused with an error of ours."""
    try:
        return call()
    except FedtutorError as error:
        assert error.where and error.do
        return None


@MANY
@given(name=st.sampled_from(sorted(FIELDS)), value=JUNK)
def test_junk_in_settings(name, value):
    if made := ours_or_right(lambda: Settings(**{name: value})):
        usual = type(getattr(Settings(), name))
        assert type(getattr(made, name)) in ((int, float) if usual is float else (usual,))


@MANY
@given(name=st.sampled_from([f.name for f in fields(Scenario)]), value=JUNK)
def test_junk_in_a_scenario(name, value):
    if made := ours_or_right(lambda: replace(tiny_scenario(), **{name: value})):
        assert (
            repr(made) and made.describe() and made.normalize(images(2, seed=0).x).isfinite().all()
        )


@MANY
@given(name=st.sampled_from(["id", "domain", "private"]), value=JUNK)
def test_junk_in_a_client(name, value):
    parts = {"id": "a", "domain": "a", "private": images(3, seed=0), name: value}
    made = ours_or_right(lambda: ClientData(**parts))
    assert made is None or (repr(made) and len(made.private))


@MANY
@given(name=st.sampled_from(["x", "y", "source"]), value=JUNK)
def test_junk_in_images(name, value):
    held = images(3, seed=0)
    parts = {"x": held.x, "y": held.y, "source": "mine", name: value}
    made = ours_or_right(lambda: Images(**parts))
    assert made is None or len(made.fingerprint) == 12
    ours_or_right(
        lambda: bundled.from_arrays(
            **{
                "images": held.x[:, 0].numpy(),
                "labels": held.y.numpy(),
                "source": "mine",
                {"x": "images", "y": "labels"}.get(name, name): value,
            }
        )
    )


@MANY
@given(name=st.sampled_from(["scenario", "method", "settings", "seed", "device", "threads"]),
       value=JUNK)  # fmt: skip
def test_junk_in_a_federation(name, value):
    parts = {"scenario": tiny_scenario(), "method": make("solo"), "settings": settings(),
             name: value}  # fmt: skip
    made = ours_or_right(lambda: Federation(**parts))
    assert made is None or made.history["clients"]


@MANY
@given(method=st.sampled_from(sorted(methods.METHODS)), data=st.data())
def test_junk_in_a_methods_parameters(method, data):
    name = data.draw(st.sampled_from([*methods.parameters(method), "nothing"]))
    value = data.draw(JUNK)
    if made := ours_or_right(lambda: make(method, **{name: value})):
        assert not isinstance(value, float) or np.isfinite(value)
        assert getattr(made, name) == value


@MANY
@given(option=st.sampled_from([*scenarios.options("mnist-mini"), "nothing"]), value=JUNK)
def test_junk_in_a_scenarios_options(option, value):
    options = {"private_size": 40, "min_per_client": 1, "num_clients": 2, option: value}
    made = ours_or_right(lambda: build("mnist-mini", **options))
    assert made is None or made.clients


@MANY
@given(value=JUNK, other=JUNK)
def test_junk_as_names_and_devices_and_networks(value, other):
    ours_or_right(lambda: device_of(value))
    ours_or_right(lambda: make(value))
    ours_or_right(lambda: build(value))
    ours_or_right(lambda: methods.register(value)(other))
    ours_or_right(lambda: scenarios.register(value)(other))
    ours_or_right(lambda: models.register(value, other))
    ours_or_right(lambda: Architecture(value, "ours", other))
    ours_or_right(lambda: bundled.bundled(value))
