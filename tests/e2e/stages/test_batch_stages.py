"""Stages of whole batches through real services: their bytes, their errors, and workers that die within them."""

import itertools
import json
import os
import signal
import time

import numpy as np
import pytest

import bulkhead
from conftest import HERE, PYTHON, digest_of, error_of, read, tool, write_spec



@pytest.fixture
def start(services, folder, photos):
    homes = (folder / f"service{number}" for number in itertools.count())

    def start_one(*options, workers=1, threads=1):
        return services(next(homes), "--root", photos, "--workers", workers, "--threads", threads, "--python", PYTHON,
                        "--python-path", HERE, "--allow-fault-stages", *options)

    return start_one


def photo_spec(folder, photos, batch_stages, name="spec.json", **more):
    spec = {
        "source": {"image_folder": {"path": str(photos / "folder")}},
        "stages": ["decode_image", {"random_resized_crop": {"size": [32, 40]}}, "random_horizontal_flip",
                   {"one_hot": {"classes": 10}}],
        "outputs": ["image", "label"],
        "batch": {"size": 40},
        "order": "global",
        "seed": 3,
        "epochs": 2,
        "batch_stages": batch_stages,
    }
    return write_spec(folder / name, **{**spec, **more})


def over_range(folder, function, outputs, inputs=("index",), size=40, batch=8, name=None, **more):
    stage = {"function": f"batch_functions:{function}", "inputs": list(inputs), "outputs": outputs}
    stage.update(more.pop("stage", {}))
    return write_spec(folder / f"{name or function}.json", source={"range": {"size": size}}, batch={"size": batch},
                      batch_stages=[{"python": stage}], **{"epochs": 1, **more})


def number(name="index", dtype="int64"):
    return {"name": name, "dtype": dtype}


MIX = [{"mixup_or_cutmix": {"mixup_alpha": 0.8}}]


def test_mixup_is_what_numpy_says(start, folder, photos):
    service = start(threads=2)
    plain = read(service, photo_spec(folder, photos, []))
    mixed = read(service, photo_spec(folder, photos, [{"mixup": {"alpha": 0.5}}]))
    shares = set()
    for before, after in zip(plain, mixed):
        # The label tells the share: where both rows have one class, any will do.
        other = np.roll(before["label"], 1, 0)
        differs = np.argmax(before["label"], 1) != np.argmax(other, 1)
        share = (after["label"] * before["label"]).sum(1)[differs][0]
        shares.add(float(share))
        assert np.array_equal(after["label"], before["label"] * share + other * (np.float32(1) - share))
        steps = np.int64(round(float(share) * 16384))
        own, rolled = before["image"].astype(np.int64), np.roll(before["image"], 1, 0).astype(np.int64)
        assert np.array_equal(after["image"], (own * steps + rolled * (16384 - steps) + 8192) >> 14)
    assert len(plain) == len(mixed) == 8 and len(shares) == 8
    assert [len(batch["image"]) for batch in mixed] == [40, 40, 40, 30] * 2


@pytest.mark.parametrize("last", ["partial", "drop", "pad"])
def test_workers_threads_and_transport_change_no_byte(start, folder, photos, last):
    spec = photo_spec(folder, photos, MIX, batch={"size": 40, "last": last})
    one = start()
    expected = digest_of("python", spec, target=one.target)
    many = start(workers=3, threads=3)
    assert digest_of("python", spec, target=many.target, transport="shm") == expected
    assert digest_of("cpp", spec, target=many.target, transport="grpc") == expected
    assert digest_of("cpp", photo_spec(folder, photos, MIX, "other.json", seed=4), target=one.target) != expected
    # Another cut of the epoch keeps the order, not the mixtures.
    if last == "partial":
        assert json.loads(tool("bench", "run", "--spec", spec, "--in-process", "--json"))["digest"] == expected


def test_unordered_batches_have_the_same_bytes(start, folder, photos):
    spec = photo_spec(folder, photos, MIX, batch={"size": 10})
    expected = {batch["image"].tobytes() for batch in read(start(), spec)}
    unordered = photo_spec(folder, photos, MIX, "unordered.json", batch={"size": 10}, deterministic=False)
    assert {batch["image"].tobytes() for batch in read(start(workers=2, threads=2), unordered)} == expected


def test_a_cursor_goes_on_with_the_same_mixtures(start, folder, photos):
    spec = photo_spec(folder, photos, MIX)
    service = start(workers=2)
    whole = read(service, spec)
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        cursor = [batch.cursor for batch in loader.stream()][2]
    rest = read(service, spec, cursor=cursor)
    assert len(rest) == 5
    for one, other in zip(whole[3:], rest):
        assert np.array_equal(one["image"], other["image"]) and np.array_equal(one["label"], other["label"])


def test_another_batch_size_keeps_the_order_and_not_the_draws(start, folder):
    def numbers(batch):
        spec = over_range(folder, "draw", [number("drawn")], size=48, batch=batch, name=f"draw{batch}", order="global")
        batches = read(service, spec)
        return [np.concatenate([one[name] for one in batches]) for name in ("index", "drawn")]

    service = start(workers=2)
    (small, drawn_small), (large, drawn_large) = numbers(8), numbers(16)
    assert np.array_equal(small, large)
    # The first rows of every second batch stand at the same position, and draw the same.
    same = drawn_small == drawn_large
    assert same.reshape(6, 8)[::2].all() and not same.reshape(6, 8)[1::2].any()


def test_tools_know_them(folder, photos):
    spec = photo_spec(folder, photos, [{"mixup": {"probability": 0}}, "cutmix"], batch={"size": 40, "last": "pad"})
    said = json.loads(tool("validate", "--json", spec))[0]
    assert said["random_stages"] == ["stages[1].random_resized_crop", "stages[2].random_horizontal_flip",
                                     "batch_stages[1].cutmix"]
    assert any("batch.last: pad with batch_stages" in warning for warning in said["warnings"])
    explained = json.loads(tool("explain", "--spec", spec, "--samples", 80, "--json"))
    assert [stage["name"] for stage in explained["stages"]][-2:] == ["batch_stages[0] mixup", "batch_stages[1] cutmix"]


def test_substituted_samples_are_mixed_like_others(start, folder):
    spec = write_spec(folder / "substitute.json", source={"range": {"size": 64}},
                      stages=[{"python": {"function": "batch_functions:needs_less_than", "inputs": ["index"],
                                          "outputs": [number()], "arguments": {"limit": 60}}}],
                      batch={"size": 16}, epochs=1, errors={"policy": "substitute", "max_fraction": 0.2},
                      batch_stages=[{"python": {"function": "batch_functions:draw", "inputs": ["index"],
                                                "outputs": [number("drawn")]}}])
    batches = read(start(threads=2), spec)
    assert batches[3]["index"].tolist() == [*range(48, 60), 0, 0, 0, 0]
    assert np.all(batches[3]["drawn"] >= batches[3]["index"])


def test_a_function_sees_and_gives_batches(start, folder, photos):
    service = start(threads=2)
    texts = {"python": {"function": "batch_functions:ragged", "inputs": ["index"],
                        "outputs": [{"name": "rows", "dtype": "float32", "shape": [-1, 2], "max_count": 3},
                                    {"name": "texts", "dtype": "bytes", "max_count": 4}]}}
    spec = over_range(folder, "join", [number("sum")], ["index", "texts", "rows", "rows_count"], size=19, stages=[texts])
    batches = read(service, spec)
    index = np.concatenate([batch["index"] for batch in batches])
    assert index.tolist() == list(range(19)) and len(batches) == 3
    assert np.array_equal(np.concatenate([batch["sum"] for batch in batches]),
                          index + index % 5 + 2 * (index % 4) + index % 4)


def test_types_that_numpy_alone_has(start, folder):
    outputs = [number("a", "uint32"), number("b", "uint64"), number("c", "complex128")]
    def function(name, inputs, outputs):
        return {"python": {"function": f"batch_functions:{name}", "inputs": inputs, "outputs": outputs}}

    spec = write_spec(folder / "types.json", source={"range": {"size": 8}}, batch={"size": 8}, epochs=1, stages=[
        function("many_types", ["index"], outputs),
        function("pair", ["index"], [{"name": "pair", "dtype": "int64", "shape": [2]}])],
        batch_stages=[function("spectrum", ["index", "pair"], [{"name": "spectrum", "dtype": "complex64", "shape": [3]}])])
    service = start()
    [batch] = read(service, spec)
    index = np.arange(8)
    assert batch["a"].dtype == np.uint32 and np.array_equal(batch["a"], index + 4_000_000_000)
    assert batch["b"].dtype == np.uint64 and batch["b"].tolist() == [2**63 + i for i in range(8)]
    assert batch["c"].dtype == np.complex128 and np.array_equal(batch["c"], index - 1j)
    assert batch["spectrum"].dtype == np.complex64
    assert np.array_equal(batch["spectrum"],
                          np.fft.fft(np.stack([index, index + 1, 5 * index], 1)).astype(np.complex64))
    assert digest_of("cpp", spec, target=service.target) == digest_of("python", spec, target=service.target)


@pytest.mark.parametrize("function", ["swap", "swap_wrapped"])
def test_outputs_may_be_views_of_inputs(start, folder, function):
    spec = over_range(folder, function, [number("index"), number("two")], ["index", "two"], size=8, stages=[
        {"python": {"function": "user_functions:index_squared", "inputs": ["index"], "outputs": [number("two")]}}])
    [batch] = read(start(), spec)
    assert batch["index"].tolist() == [i * i for i in range(8)]
    assert batch["two"].tolist() == list(range(8))[::-1]


@pytest.mark.parametrize("policy", ["fail", "substitute"])
def test_an_error_is_the_batchs(start, folder, policy):
    spec = over_range(folder, "needs_less_than", [number()], errors={"policy": policy},
                      stage={"arguments": {"limit": 20}})
    service = start(threads=2)
    error = error_of(service, spec)
    assert error.reason == "STAGE_FAILED"
    assert "the batch of positions 16 to 23 of epoch 0: batch_stages[0] python: batch_functions:needs_less_than: " in str(error)
    assert "ValueError: 23 is too much (at batch_functions.py:" in str(error)
    assert error.metadata["position"] == "16" and error.metadata["last_position"] == "23"
    # What came before was delivered.
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        stream = loader.stream()
        assert next(stream)["index"].tolist() == list(range(8))
        assert next(stream)["index"].tolist() == list(range(8, 16))
        with pytest.raises(bulkhead.BulkheadError):
            next(stream)


def test_wrong_results_are_told(start, folder):
    service = start()
    error = error_of(service, over_range(folder, "one_row_less", [number()]))
    assert error.reason == "WRONG_SHAPE"
    assert "output `index` has the shape [7], but is declared as int64 [8] for this batch" in str(error)
    error = error_of(service, over_range(folder, "keep", [number()]))
    assert error.reason == "STAGE_UNUSABLE" and "keeps its input `index`" in str(error)


def is_at_the_batch_stage(worker):
    return any(thread["stage"] == "batch_stages[0] python" for thread in worker.get("activity", []))


def killed_at_the_batch_stage(target):
    """Whether a worker was found within the batch stage, and killed there. It is stopped and looked at once more, as it
    may have left the stage by then."""
    def within():
        return [int(worker["pid"]) for worker in bulkhead.service_status(target)["workers"] if is_at_the_batch_stage(worker)]

    for pid in within()[:1]:
        os.kill(pid, signal.SIGSTOP)
        stays = pid in within()
        os.kill(pid, signal.SIGKILL if stays else signal.SIGCONT)
        return stays
    return False


def test_a_worker_killed_within_a_batch_stage_changes_no_byte(start, folder):
    spec = over_range(folder, "draw", [number()], size=1600, batch=16, epochs=2, seed=5)
    expected = digest_of("python", spec, target=start().target)
    service = start(workers=2, threads=2)
    hits = 0
    values = []
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for batch in loader.stream():
            values.append(np.array(batch["index"]))
            deadline = time.monotonic() + 0.2  # it may be idle until the next batch is taken
            while hits < 3 and len(values) >= 20 * (hits + 1) and time.monotonic() < deadline:
                hits += killed_at_the_batch_stage(service.target)
    status = bulkhead.service_status(service.target)
    within = [end for end in status["recent_exits"] if is_at_the_batch_stage(end)]
    assert hits == 3 and len(within) == 3, status["recent_exits"]
    assert len(values) == 200
    assert digest_of("python", spec, target=service.target) == expected
    undisturbed = read(service, spec)
    assert all(np.array_equal(one, other["index"]) for one, other in zip(values, undisturbed))


def test_a_poison_sample_among_many_threads_is_found(start, folder):
    spec = write_spec(folder / "poison.json", source={"range": {"size": 128}}, batch={"size": 32}, epochs=1,
                      stages=[{"fault": {"crash": True, "records": [41]}}],
                      errors={"policy": "substitute", "max_fraction": 0.1},
                      batch_stages=[{"python": {"function": "batch_functions:draw", "inputs": ["index"],
                                                "outputs": [number("drawn")]}}])
    service = start(workers=2, threads=4)
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        values = [int(value) for batch in loader.stream() for value in batch["index"]]
        assert list(loader.quarantined) == ["range@41"]
    assert values == [42 if i == 41 else i for i in range(128)]


def test_a_batch_stage_that_crashes_blames_no_sample(start, folder):
    spec = over_range(folder, "crash_at", [number()], size=64, batch=16, stage={"arguments": {"at": 20}},
                      errors={"policy": "substitute"})
    service = start(workers=2, threads=2)
    error = error_of(service, spec)
    assert error.reason == "WORKER_CRASH_LOOP"
    assert "of the batch (epoch 0, positions 16 to 31" in str(error)
    assert int(bulkhead.service_status(service.target)["samples_quarantined"]) == 0


def test_five_crops_of_an_image(start, folder, photos):
    service = start()

    def images(*stages):
        spec = write_spec(folder / f"five{len(stages)}.json", source={"image_folder": {"path": str(photos / "folder")}},
                          stages=["decode_image", {"resize": {"size": [30, 40]}}, *stages], outputs=["image"],
                          batch={"size": 10}, epochs=1)
        return read(service, spec)[0]["image"]

    whole = images()
    five = images({"five_crop": {"size": [10, 12]}})
    assert five.shape == (10, 5, 10, 12, 3)
    for i, (top, left) in enumerate([(0, 0), (0, 28), (20, 0), (20, 28), (10, 14)]):
        assert np.array_equal(five[:, i], whole[:, top:top + 10, left:left + 12])
    turned = images({"five_crop": {"size": [10, 12]}}, {"normalize": {"divide": 2}}, {"layout": {"to": "nchw"}})
    assert np.array_equal(turned, five.transpose(0, 1, 4, 2, 3).astype(np.float32) / 2)
