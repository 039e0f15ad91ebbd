"""Play a run of a manifest in this process.

A run saves its state after every round and goes on from there the next time, bit for bit on the
same kind of machine.
"""

import os
import warnings
from pathlib import Path

import torch

from ..engine.checkpoints import Checkpoints
from .commits import require_committed
from .manifest import Run
from .results import save_result
from .run import run as train


def play(run: Run, *, results, kept, device: str = "cpu", threads: int = 1) -> str:
    """Play a run from its checkpoint on, in this process, and write its result; in words.

    On a GPU the process is to be a new one, for the same bits in a resumed run. Raises
    `SettingError` where `results` takes none of uncommitted code.
    """
    require_committed(results)
    if torch.device(device).type == "cuda":
        _repeatable()
    states = Checkpoints(run.state(kept), every=0)
    result = train(
        run.recipe,
        run.method,
        seed=run.seed,
        device=device,
        threads=threads,
        checkpoint=states,
        artifacts=Path(kept) / "artifacts",
    )
    save_result(result, run.path(results))
    for file in states.files():
        file.unlink(missing_ok=True)
    share = f"{100 * result.headline['intra']:.1f} % on own tests"
    return f"done in {result.totals['seconds']:.0f} s of rounds, {share}"


def _repeatable() -> None:
    """Let a GPU give the same bits when a run is resumed."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    warnings.filterwarnings("ignore", message=".*deterministic.*")
