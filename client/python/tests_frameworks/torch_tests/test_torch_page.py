"""docs/pytorch.md: what stands in its snippets runs, in the order of the page."""

import re
import subprocess
import sys

import pytest
import torch
from conftest import BIN, ROOT

PAGE = (ROOT / "docs/pytorch.md").read_text()

PHOTOS = """
import numpy as np

class Photos:
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return np.full((3, 4, 4), index, np.float32), index % 2
"""


def snippets(heading, language="python"):
    """Those below a heading of the page, up to the next one of its level."""
    _, _, section = PAGE.partition(f"\n{heading}\n")
    level = heading.index(" ")
    section = re.split(rf"\n#{{2,{level}}} ", section)[0]  # a comment of a snippet begins with one #
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The names that the snippets take as given; they run as a program does, in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mydata.py").write_text(PHOTOS)
    monkeypatch.delitem(sys.modules, "mydata", raising=False)
    names = {"__name__": "__main__", "torch": torch, "path": "checkpoint.pt", "seen": []}
    names["model"] = torch.nn.Identity()
    names["criterion"] = lambda output, label: names["seen"].append(label)
    names["train"] = lambda images, labels: names["seen"].append(labels)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield names
    torch.distributed.destroy_process_group()
    for name in ("loader", "dataset", "valid"):
        if name in names:
            names[name].close()


def run(snippet, names):
    exec(compile(re.sub(r"\b10\)", "2)", snippet), "docs/pytorch.md", "exec"), names)


def test_a_dataset_of_your_own(program):
    whole, *_ = snippets("## A dataset of your own")
    run(whole, program)
    assert sorted(torch.cat(program["seen"]).tolist()) == 2 * 256 // 2 * [0] + 2 * 256 // 2 * [1]
    save, resume = snippets("### Resume")
    run(save, program)
    run(resume, program)
    [ranks] = snippets("### Several ranks")
    program["dataset"] = program["loader"].dataset
    program["loader"].close()
    run(ranks, program)
    del program["dataset"]


def test_a_spec(program, tmp_path):
    subprocess.run([BIN / "bulkhead", "synth", "drawn", "--count", "128", "--size", "64x48", "--classes", "4"], check=True, capture_output=True)
    (tmp_path / "photos").symlink_to("drawn/folder")
    [train] = snippets("## A spec", "yaml")
    (tmp_path / "train.yaml").write_text(train)
    valid = train.replace("random_resized_crop", "resize").replace("- random_horizontal_flip\n", "").replace("global", "sequential")
    (tmp_path / "valid.yaml").write_text(valid)
    run("import bulkhead.torch\n" + snippets("## A spec")[0], program)
    assert [len(labels) for labels in program["seen"]] == 2 * [64, 64]
    save, resume = snippets("### Checkpoints")
    run(save, program)
    assert program["dataset"].state_dict()["epoch"] == 2
    run(resume, program)
    [validation] = snippets("### Validation")
    run(validation, program)
    assert program["valid"].target == program["dataset"].target
    program["dataset"].close()
    [ranks] = snippets("### Many ranks")
    run(ranks.replace("torch.distributed.init_process_group", "str"), program)
    assert len(program["dataset"]) == 2
