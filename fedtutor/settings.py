"""The settings of a run: one flat record, the same for every method.

Recipes fill it from `data/recipes/*.toml`. A method's own parameters (mu, ...) are its fields.
"""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.functional_validators import AfterValidator, BeforeValidator

from .engine.kinds import Momentum, check_fields, checked
from .errors import SettingError, choose, strict

VIRTUAL_INITS = ("noise", "statistics", "statistics_code", "real")  # see `distillation.initial`
VIRTUAL_AUGMENT = ("none", "siamese")  # see `engine/siamese.py`
MOMENTS = ("after_collaborate", "local_epoch", "after_local", "after_aggregate")
LAST = ", last round"  # behind a moment (but local_epoch): only there
IN_BRACKETS = " (last round)"  # another way to write it, without a comma
RECORD = {"names": list[str], "rounds": list[int], "clients": list[str]}  # see `Channel`


def moment_of(given) -> str:
    """A moment of `observe` as results name it: "after_local (last round)" has a comma there."""
    spelled = given.replace(LAST, IN_BRACKETS) if isinstance(given, str) else given
    known = (*MOMENTS, *(m + IN_BRACKETS for m in MOMENTS if m != "local_epoch"))
    choose(spelled, known, kind="moment in 'observe'", where="settings")
    return spelled.replace(IN_BRACKETS, LAST)


Moment = Annotated[str, BeforeValidator(moment_of)]
Networks = Annotated[list[str], Field(min_length=1)]
Record = Annotated[dict, AfterValidator(lambda given: checked(given, RECORD, "setting 'record'"))]


@strict(SettingError)
@dataclass(frozen=True)
class Settings:
    """Settings of one run. Raises `SettingError` for a value that cannot be right."""

    rounds: PositiveInt = 10  # communication rounds
    local_epochs: PositiveInt = 1  # passes over the private data in each round
    client_epochs: list[PositiveInt] = field(default_factory=list)  # one per client, if unequal
    batch_size: PositiveInt = 32  # private images per step
    drop_last: bool = False  # leave out the last, smaller batch of an epoch
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: PositiveFloat = 0.01  # learning rate of the local optimizer
    lr_schedule: dict = field(default_factory=dict)  # over rounds, see `learning_rates`
    momentum: Momentum = 0.0  # of SGD
    weight_decay: NonNegativeFloat = 0.0  # of the local optimizer
    keep_optimizer: bool = False  # keep the optimizer's memory from round to round
    models: Networks = field(default_factory=lambda: ["small_cnn"])  # one, or one per client
    common_init: bool = True  # equal networks start from equal weights
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the clients in a round
    public_batch_size: PositiveInt = 128  # public images per exchange
    public_epochs: PositiveInt = 1  # passes over the public data in each round
    eval_every: PositiveInt = 1  # evaluate after every so many rounds, and after the last
    eval_batch_size: PositiveInt = 500  # test images per forward pass
    top: PositiveInt = 1  # right is a label among so many largest logits; accuracies are top-`top`
    observe: list[Moment] = field(default_factory=list)  # moments inside a round, see `moment_of`
    record: Record = field(default_factory=dict)  # payloads to keep: names, rounds, clients
    virtual_ipc: NonNegativeInt = 0  # distilled images per class, for the private ones; 0: none
    virtual_steps: NonNegativeInt = 1000  # of distribution matching, before round 1
    virtual_init: Literal[*VIRTUAL_INITS] = "statistics"  # what they start from
    virtual_network: str = ""  # of distribution matching before round 1; "": the trained one
    virtual_lr: NonNegativeFloat = 1.0  # of their pixels, in the scale that networks see
    virtual_momentum: Momentum = 0.5  # of their pixels
    virtual_batch: NonNegativeInt = 0  # private images per class and step; 0: all of them
    virtual_augment: Literal[*VIRTUAL_AUGMENT] = "none"  # "siamese": the same for both sides
    virtual_clip: NonNegativeFloat = 0.0  # of private gradients (DP-SGD), `private_matching`
    virtual_noise: NonNegativeFloat = 0.0  # their noise multiplier; needs a clip
    precision: Literal["float32", "tf32", "bf16"] = "float32"  # of products; "tf32" on newer GPUs

    def __post_init__(self):
        check_fields(self, "settings")


FIELDS = {f.name: f for f in fields(Settings)}
