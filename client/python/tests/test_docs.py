"""Pages about the package are about this package."""

import pathlib
import re
import sys
import types

from conftest import check_fresh, generator

import bulkhead

ROOT = pathlib.Path(__file__).resolve().parents[1]
GUIDE = ROOT.parents[1] / "docs" / "python.md"


def update_api():
    return generator("client/python/update_api.py")


def test_the_reference_is_that_of_the_docstrings():
    update = update_api()
    assert update.OUTPUT.read_text() == update.generate(), "run scripts/update_generated.sh"


def test_the_tables_of_options_are_those_of_the_declarations():
    check_fresh("scripts/update_option_tables.py")


def test_the_schema_of_specs_is_that_of_the_declarations():
    check_fresh("scripts/update_spec_schema.py")


def test_the_reference_has_the_adapters_and_what_they_offer():
    text = update_api().generate()
    for heading, call in (
        ("## bulkhead.torch.Dataset", "bulkhead.torch.Dataset("),
        ("### bulkhead.torch.Dataset.stream", "dataset.stream()"),
        ("## bulkhead.tf.Loader", "    buffer: int = 2,"),
        ("### bulkhead.tf.Loader.validation", "loader.validation() -> tf.data.Dataset"),
        ("## bulkhead.keras.PyDataset", "    endless: bool = False,"),
        ("### bulkhead.keras.PyDataset.callback", "pydataset.callback("),
        ("## bulkhead.keras.StepCallback", ""),
        ("## bulkhead.jax.Loader", "    sharding: Any = None,"),
        ("### bulkhead.jax.Loader.set_epoch", "loader.set_epoch(epoch: int)"),
    ):
        _, found, section = text.partition(f"\n{heading}\n")
        assert found and call in section.partition("\n##")[0], heading


def test_the_reference_needs_no_framework_and_leaves_imports_as_they_are(monkeypatch):
    installed = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", installed)
    update = update_api()
    with update.adapters_alone.adapters(update.ADAPTERS) as modules:
        stand_in = modules["torch"].torch
        assert stand_in is not installed
    assert sys.modules["torch"] is installed
    assert not [name for name in sys.modules if type(sys.modules[name]) is type(stand_in)]
    assert not {f"bulkhead.{name}" for name in update.ADAPTERS} & set(sys.modules)
    assert not set(update.ADAPTERS) & set(vars(bulkhead))


def test_what_is_public_is_explained():
    for name in bulkhead.__all__:
        assert getattr(bulkhead, name).__doc__, name
    for cls in (bulkhead.Loader, bulkhead.Batch, bulkhead.Pipeline):
        for name in dir(cls):
            if not name.startswith("_") and name not in ("get", "items", "keys", "values"):
                assert getattr(cls, name).__doc__, f"{cls.__name__}.{name}"


def test_the_guide_names_what_there_is():
    text = GUIDE.read_text()
    for owner, name in re.findall(r"\b(bulkhead|Pipeline|Feature|loader|batch)\.(\w+)\(", text):
        holder = {"bulkhead": bulkhead, "loader": bulkhead.Loader, "batch": bulkhead.Batch}.get(
            owner, getattr(bulkhead, owner, None)
        )
        assert hasattr(holder, name), f"{owner}.{name}"


def test_the_guides_pipelines_can_be_built():
    blocks = [
        b
        for b in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        if "Pipeline" in b
    ]
    assert len(blocks) >= 3
    names = {
        "Pipeline": bulkhead.Pipeline,
        "positives": bulkhead.Pipeline.range(3),
        "negatives": bulkhead.Pipeline.range(3),
        "paths": ["a.jpg"],
        "labels": [1],
    }
    for block in blocks:
        if "Loader(" not in block:
            exec(block, names)
    assert names["pipeline"].to_dict()["batch"] == {"size": 64}
