"""What a run is told: one flat record, the same for every method.

Recipes (`experiments/recipes.py`) fill it from `data/recipes/*.toml`; `rounds.py` reads it.
A method's own parameters (mu, tau, ...) are fields of the method, not of this record.
"""

from dataclasses import dataclass, field, fields

from .engine.kinds import is_a, words_of
from .errors import SettingError, choose, strict

VIRTUAL_INITS = ("noise", "statistics", "statistics_code", "real")  # see `distillation.initial`
VIRTUAL_AUGMENT = ("none", "siamese")  # see `engine/siamese.py`
CHOICES = {
    "optimizer": ("sgd", "adam"), "precision": ("float32", "tf32", "bf16"),
    "on_client_error": ("stop", "leave_out"), "virtual_init": VIRTUAL_INITS,
    "virtual_augment": VIRTUAL_AUGMENT,
}  # fmt: skip
AT_LEAST = {
    0: ("weight_decay", "virtual_ipc", "virtual_steps", "virtual_batch", "virtual_lr"),
    1: ("rounds", "local_epochs", "batch_size", "public_batch_size", "public_epochs", "eval_every",
        "eval_batch_size"),
}  # fmt: skip
MOMENTS = ("after_collaborate", "local_epoch", "after_local", "after_aggregate")
LAST = ", last round"  # behind a moment (but local_epoch): only there
IN_BRACKETS = " (last round)"  # another way to write it, without a comma
RECORD = {"names": list[str], "rounds": list[int], "clients": list[str]}  # see `Channel`


@strict(SettingError)
@dataclass(frozen=True)
class Settings:
    """Settings of one run. Raises `SettingError` for a value that cannot be right."""

    rounds: int = 10  # communication rounds
    local_epochs: int = 1  # passes over the private data in each round
    client_epochs: list[int] = field(default_factory=list)  # one per client, if unequal
    batch_size: int = 32  # private images per step
    drop_last: bool = False  # leave out the last, smaller batch of an epoch
    optimizer: str = "sgd"  # "sgd" or "adam"
    lr: float = 0.01  # learning rate of the local optimizer
    momentum: float = 0.0  # of SGD
    weight_decay: float = 0.0  # of the local optimizer
    keep_optimizer: bool = False  # keep the optimizer's memory from round to round
    models: list[str] = field(default_factory=lambda: ["small_cnn"])  # one, or one per client
    common_init: bool = True  # equal networks start from equal weights
    participation: float = 1.0  # share of the clients that take part in a round
    public_batch_size: int = 128  # public images per exchange
    public_epochs: int = 1  # passes over the public data in each round
    eval_every: int = 1  # evaluate after every so many rounds, and after the last
    eval_batch_size: int = 500  # test images per forward pass
    observe: list[str] = field(default_factory=list)  # moments inside a round, see `moment_of`
    record: dict = field(default_factory=dict)  # payloads to keep: names, rounds, clients
    virtual_ipc: int = 0  # distilled images per class that replace the private ones; 0: none do
    virtual_steps: int = 1000  # of distribution matching, before round 1
    virtual_init: str = "statistics"  # what they start from, see `VIRTUAL_INITS`
    virtual_lr: float = 1.0  # of their pixels, in the scale that networks see
    virtual_momentum: float = 0.5  # of their pixels
    virtual_batch: int = 0  # private images per class and step; 0: all of them
    virtual_augment: str = "none"  # "siamese": one random change for both sides in each step
    precision: str = "float32"  # of products; "tf32" on GPUs that have it, or "bf16"
    on_client_error: str = "stop"  # "leave_out": who fails sits out a round: `engine/leave_out.py`

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, tuple):  # as good as a list
                object.__setattr__(self, f.name, value := list(value))
            self._require(f.name, is_a(value, f.type), words_of(f.type, value))
        for name, known in CHOICES.items():
            choose(getattr(self, name), known, kind=name, where="settings")
        object.__setattr__(self, "observe", [moment_of(given) for given in self.observe])
        for key in self.record:
            choose(key, RECORD, kind="key in 'record'", where="settings")
            right = is_a(self.record[key], RECORD[key])
            self._require("record", right, f"a table whose {key!r} is {words_of(RECORD[key])}")
        for least, names in AT_LEAST.items():
            for name in names:
                self._require(name, getattr(self, name) >= least, f"at least {least}")
        self._require("lr", self.lr > 0, "greater than 0")
        self._require("momentum", 0 <= self.momentum < 1, "at least 0 and below 1")
        self._require("participation", 0 < self.participation <= 1, "above 0 and at most 1")
        self._require("virtual_momentum", 0 <= self.virtual_momentum < 1, "at least 0, below 1")
        whole = all(epochs >= 1 for epochs in self.client_epochs)
        self._require("client_epochs", whole, "a list of whole numbers, each at least 1")
        self._require("models", len(self.models) >= 1, "a list with at least one network")

    def _require(self, name: str, right: bool, rule: str) -> None:
        if not right:
            raise SettingError(
                f"{name} = {getattr(self, name)!r}", where="settings", do=f"{name} must be {rule}"
            )


FIELDS = {f.name: f for f in fields(Settings)}


def moment_of(given) -> str:
    """A moment of `observe` as results name it: "after_local (last round)" has a comma there."""
    spelled = given.replace(LAST, IN_BRACKETS) if isinstance(given, str) else given
    known = (*MOMENTS, *(m + IN_BRACKETS for m in MOMENTS if m != "local_epoch"))
    choose(spelled, known, kind="moment in 'observe'", where="settings")
    return spelled.replace(IN_BRACKETS, LAST)
