"""The example with Ray Train: a worker dies in mid-epoch, and every loss is that of an undisturbed run."""

import os
import re
import subprocess
import sys

from conftest import ROOT
from two_nodes import cluster, head, nodes  # noqa: F401  (fixtures)

STEPS_OF_AN_EPOCH = 25


def trained(cluster, folder, *options):
    """(losses by step, steps at which the workers began)"""
    done = subprocess.run(
        [sys.executable, ROOT / "examples/ray-train/train.py", "--folder", folder, "--replicas", "2", *options],
        capture_output=True,
        text=True,
        timeout=1500,
        env={**os.environ, "RAY_ADDRESS": cluster.cluster.address},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    losses = re.findall(r"^step (\d+) loss (\S+)$", done.stdout, re.MULTILINE)
    began = re.search(r"^began at steps (.*)$", done.stdout, re.MULTILINE)[1]
    return losses, list(map(int, began.split()))


def test_training_goes_on_in_mid_epoch_with_equal_losses(nodes, tmp_path):
    losses, began = trained(nodes, tmp_path)
    assert (len(losses), began) == (3 * STEPS_OF_AN_EPOCH, [0])
    again, (first, resumed) = trained(nodes, tmp_path, "--die-at", "37")
    # Ray Train may not have stored the checkpoint of step 30 yet.
    assert first == 0 and resumed in (10, 20, 30) and resumed % STEPS_OF_AN_EPOCH != 0
    assert again == losses
