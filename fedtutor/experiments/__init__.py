"""What was run, with which settings, and what came out.

- Settings: `recipes`. One run: `run`. What it leaves: `results`, and `stored` in files;
  all of it as a table: `runs()`, of `frame`.
- Who sends what in a round: `exchange`, counted in rounds that are played for it.
- With what it was made: `environment`, `commits`.
- Runs that stand for printed tables: `manifest` lists them, `worker` plays one of them in a process
  of `jobs`, `rehearsal` tries them before.
- Notebook 07: `arenas` and `ranks`. Notebook 06: `attack_studies`, `attack_messages` and
  `attack_list`.
"""

from .exchange import exchange
from .frame import runs

__all__ = ["exchange", "runs"]
