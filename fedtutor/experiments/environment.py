"""What the numbers of a run may depend on: versions, processor, memory, and the commit."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from .. import __version__
from .commits import git_commit

CAPS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR")


def environment(device="cpu", threads: int = 1) -> dict:
    """What the numbers may depend on. No path, no host name."""
    gpu = torch.device(device).type == "cuda"
    cpu = f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    return {
        "fedtutor": __version__, "python": platform.python_version(), "torch": torch.__version__,
        "torchvision": version("torchvision"), "numpy": version("numpy"),
        "platform": platform.system(), "git": git_commit(), "threads": threads,
        "device": torch.cuda.get_device_name(device) if gpu else cpu,
        "processor": processor(), "instructions": instructions(),
    }  # fmt: skip


@cache
def processor() -> str:
    """The model of the processor, as the system names it; "" where nobody says."""
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.CalledProcessError):
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            return said.stdout.strip()
    if platform.system() == "Windows":
        return os.environ.get("PROCESSOR_IDENTIFIER", platform.processor())
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(named, platform.processor())
    return platform.processor()


def instructions() -> dict[str, str]:
    """The vector instructions that torch uses, and the variables that keep a library from more."""
    used = {"torch": torch.backends.cpu.get_cpu_capability()}
    return used | {name: os.environ[name] for name in CAPS if name in os.environ}


def peak_memory(device="cpu") -> int | None:
    """Bytes: of the GPU since the run began, or of the whole process since its start."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if (status := Path("/proc/self/status")).exists():  # Linux: getrusage counts the parent, too
        lines = (line.split() for line in status.read_text().splitlines())
        return next((1024 * int(words[1]) for words in lines if words[0] == "VmHWM:"), None)
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
