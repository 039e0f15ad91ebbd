"""The page on speed, made from what the benchmarks wrote into data/speed/ and from faults.py.

    python tests/bench_page.py
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from bench_clients import EACH
from bench_layouts import BATCH, KINDS
from bench_rounds import GPU_ONLY, MAIN, PARTS, WORKLOADS, fastest, ratio, ratios
from matplotlib import pyplot as plt

from fedtutor.engine.files import ROOT, load_json, write_atomically
from fedtutor.figures.drawing import style
from fedtutor.report.tables import with_part

