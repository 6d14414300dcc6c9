import gc
import json
import time

import bulkhead
import bulkhead.tf
import numpy as np
import pytest
import tensorflow as tf
from bulkhead.tf import Loader
from conftest import PACKED_RUNS, check_arguments, check_facts, check_healing, numbers, packed_runs
from recorder import STRUCTURE, Recorder, floats


def firsts(elements):
    return [int(element[0]) for element in elements]


def let_go(loader):
    """Waits for slots that TensorFlow lets go of when it next takes an array."""
    gc.collect()
    until = time.monotonic() + 30
    while loader.loader.held_slots and time.monotonic() < until:
        tf.convert_to_tensor(np.zeros(1))
    return loader.loader.held_slots


def test_an_iteration_is_what_is_left_of_one_epoch():
    with Loader(numbers(64, 8), structure="index") as loader:
        assert firsts(loader.epoch()) == firsts(loader.epoch()) == list(range(0, 64, 8))
        assert loader.loader.epoch == 1


def test_elements_have_the_structure_and_the_signature_that_is_asked_for():
    structure = ({"input": "index"}, {"output": "index"})
    with Loader(numbers(16, 8), structure=structure) as loader:
        dataset = loader.stream()
        shape = tf.TensorSpec((None,), tf.int64)
        x, y = dataset.element_spec
        assert x["input"].is_compatible_with(shape) and y["output"].is_compatible_with(shape)
        x, y = next(iter(dataset))
        assert x["input"].numpy().tolist() == y["output"].numpy().tolist() == list(range(8))
    with Loader(numbers(16, 8)) as loader:
        assert list(next(iter(loader))) == ["index"]
    with pytest.raises(
        bulkhead.InvalidArgument, match="'image'; the pipeline's outputs are 'index'"
    ):
        Loader(numbers(16, 8), structure=({"input": "image"},))


@pytest.mark.parametrize("copy", [False, True])
def test_byte_strings_are_tf_strings(tmp_path, copy):
    (tmp_path / "x.png").write_bytes(b"")
    source = {"image_list": {"entries": ["x.png 1", "x.png 2"], "max_path_bytes": 8}}
    spec = {"source": source, "batch": {"size": 2}, "outputs": ["path", "label"]}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    with Loader(tmp_path / "spec.json", structure=("path", "label"), copy=copy) as loader:
        ((path, label),) = loader
        assert path.numpy().tolist() == [b"x.png", b"x.png"] and label.numpy().tolist() == [1, 2]


def test_tensors_view_the_slots_and_give_them_back():
    spec = numbers(64, 8, stages=[{"one_hot": {"input": "index", "classes": 64}}])
    with Loader(spec, structure="index", copy_below=0) as loader:
        assert loader.loader.transport == "shm"
        kept = [element for element in loader.epoch().take(3)]
        assert let_go_except(loader, 3) == 3
        del kept
        assert let_go(loader) == 0


def let_go_except(loader, count):
    gc.collect()
    until = time.monotonic() + 30
    while loader.loader.held_slots > count and time.monotonic() < until:
        tf.convert_to_tensor(np.zeros(1))
    return loader.loader.held_slots


def test_copies_hold_no_slot_and_may_be_kept():
    with Loader(numbers(64, 8), structure="index", copy=True) as loader:
        kept = [element for _ in range(3) for element in loader.epoch()]
        assert let_go(loader) == 0
        assert firsts(kept) == 3 * list(range(0, 64, 8))


def test_validation_starts_at_position_0_every_time():
    spec = numbers(64, 8, order={"global": {}}, seed=3)  # another order in every epoch
    with Loader(spec, structure="index") as loader:
        first = firsts(loader.validation())
        assert len(first) == len(loader) == int(loader.validation().cardinality()) == 8
        assert firsts(loader.validation().take(3)) == first[:3]
        assert firsts(loader.validation()) == first
        assert firsts(loader.epoch()) != first


def test_validation_gives_what_an_earlier_loop_got_out_of_turn():
    spec = numbers(64, 8, deterministic=False)
    with Loader(spec, structure="index") as loader:
        place = {"completed": [2], "batch_size": 8, "world_size": 1}
        loader.load_state_dict({**loader.state_dict(), **place})
        assert sorted(firsts(loader.validation())) == list(range(0, 64, 8))


def test_the_cursor_counts_what_the_loop_got():
    with Loader(numbers(64, 8), structure="index") as loader:
        for element in loader:
            if element[0] == 16:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["consumed"] == 24
        assert firsts(loader) == [24, 32, 40, 48, 56]  # a loop left by break is continued
        assert loader.state_dict()["epoch"] == 1
        loader.load_state_dict(state)
        assert firsts(loader) == [24, 32, 40, 48, 56]
    with Loader(numbers(64, 8), structure="index", cursor=state) as loader:
        assert firsts(loader) == [24, 32, 40, 48, 56]


def test_nobody_knows_what_was_trained_on_unless_it_is_told():
    with Loader(numbers(64, 8), structure="index") as loader:
        assert loader.state_dict()["consumed"] == 0
        next(iter(loader.stream()))
        with pytest.raises(bulkhead.InvalidArgument, match="callback"):
            loader.state_dict()


def test_errors_of_a_loop_are_those_of_the_loader():
    with Loader(numbers(16, 8, epochs=1), structure="index") as loader:
        assert firsts(loader) == [0, 8]
        with pytest.raises(bulkhead.EpochsExhausted):
            next(iter(loader))


def test_who_keeps_all_slots_is_told_of_copies():
    with Loader(numbers(64, 8), structure="index", credits=3, timeout=0.5, copy_below=0) as loader:
        with pytest.raises(bulkhead.SlotsExhausted, match="copy=True"):
            list(loader)
        with pytest.raises(tf.errors.OpError, match="copy=True"):
            list(loader.epoch())


def test_a_buffer_of_none_is_refused():
    with pytest.raises(bulkhead.InvalidArgument, match="buffer"):
        Loader(numbers(16, 8), buffer=0)


def test_keras_trains_on_every_batch_once_and_validates_from_position_0(tmp_path):
    recorder = Recorder()
    training, validation = list(range(0, 80, 8)), [0, 4, 8]
    with (
        Loader(floats(80, 8), structure=STRUCTURE) as train,
        Loader(floats(12, 4), structure=STRUCTURE) as valid,
    ):
        fit = dict(
            steps_per_epoch=4,
            validation_data=valid.validation(),
            validation_steps=len(valid),
            callbacks=[train.callback(str(tmp_path / "cursor.json"))],
            verbose=0,
        )
        recorder.model.fit(train.stream(), epochs=2, **fit)
        assert recorder.take() == training[:4] + validation + training[4:8] + validation
        assert train.loader.target == valid.loader.target  # one service, one budget
        assert len(bulkhead.service_status(train.loader.target)["streams"]) == 2
        assert train.state_dict()["consumed"] == 64
        saved = json.loads((tmp_path / "cursor.json").read_text())
        assert saved == train.state_dict()
        # tf.data had fetched more; nothing of it is lost to the next fit, or to another process.
        recorder.model.fit(train.stream(), epochs=1, **fit)
        assert recorder.take() == training[8:] + training[:2] + validation
    with Loader(floats(80, 8), structure=STRUCTURE, cursor=saved) as train:
        recorder.model.fit(
            train.stream(), steps_per_epoch=3, verbose=0, callbacks=[train.callback()]
        )
        assert recorder.take() == training[8:] + training[:1]


def test_a_callback_that_comes_late_goes_on_behind_what_was_fetched():
    with Loader(floats(80, 8), structure=STRUCTURE) as train:
        elements = iter(train.stream())
        next(elements)
        del elements
        recorder = Recorder()
        callback = train.callback()
        begin = train.state_dict()["consumed"]
        recorder.model.fit(train.stream(), steps_per_epoch=2, verbose=0, callbacks=[callback])
        assert begin > 0 and recorder.take() == [begin, begin + 8]
        assert train.state_dict()["consumed"] == begin + 16


def test_steps_of_one_execution_are_all_counted():
    recorder = Recorder(steps_per_execution=3)
    with Loader(floats(80, 8), structure=STRUCTURE) as train:
        recorder.model.fit(
            train.stream(), steps_per_epoch=6, verbose=0, callbacks=[train.callback()]
        )
        assert train.state_dict()["consumed"] == 48


def test_an_idle_validation_stream_is_never_timed_out(service):
    """Idle for longer than any limit on the way.

    They are 2 s until a worker counts as hung (this service's; 30 s by default), 10 s of silence,
    20 s between keep-alive pings, and 30 s until a pipeline without streams is stopped.
    """
    with (
        Loader(numbers(64, 8), service.target, structure="index") as valid,
        Loader(numbers(1 << 20, 8), service.target, structure="index") as train,
    ):
        elements = iter(valid.validation())
        before = firsts([next(elements)])
        boot = valid.loader.boot_id
        until = time.monotonic() + 33
        steps = 0
        for steps, element in enumerate(train.stream()):
            if time.monotonic() > until:
                break
        assert steps > 1000
        assert before + firsts(elements) == list(range(0, 64, 8))
        assert firsts(valid.validation()) == list(range(0, 64, 8))
        assert (valid.loader.reconnects, train.loader.reconnects) == (0, 0)
        assert valid.loader.boot_id == boot


def test_a_killed_service_is_a_longer_wait(service):
    check_healing(Loader, service, firsts, step=8, structure="index")


def test_an_argument_that_it_lacks_is_answered():
    check_arguments(Loader)


def test_it_tells_what_its_loader_knows(tmp_path):
    check_facts(Loader, tmp_path)


@pytest.mark.parametrize("copy", [False, True])
def test_packed_rows_make_ragged_tensors(tmp_path, copy):
    with Loader(packed_runs(tmp_path), structure=("runs", "runs_offsets"), copy=copy) as loader:
        values, splits = loader.stream().element_spec
        assert values.shape.as_list() == splits.shape.as_list() == [None]
        found = [tf.RaggedTensor.from_row_splits(*element).to_list() for element in loader]
    assert [sum(rows, []) for rows in found] == PACKED_RUNS
    assert found[0] == [[], [1], [2, 2], [3, 3, 3]] and found[2] == [[], [9]]


def test_what_varies_by_batch_is_unknown_to_tensorflow(tmp_path):
    png = tf.io.encode_png(np.zeros((8, 8, 3), np.uint8)).numpy()
    (tmp_path / "x.png").write_bytes(png)
    spec = {
        "source": {"image_list": {"entries": [f"{tmp_path}/x.png {i}" for i in range(6)]}},
        "stages": ["decode_image", {"resize": {"size": 8}}],
        "batch": {"size": 1},
        "outputs": ["image"],
        "batch_stages": [{"multi_scale": {"sizes": [2, 4, 8]}}],
    }
    with Loader(spec, structure="image") as loader:
        assert loader.stream().element_spec.shape.as_list() == [None, None, None, 3]
        shapes = {tuple(image.shape) for image in loader}
    assert shapes <= {(1, n, n, 3) for n in (2, 4, 8)} and len(shapes) > 1
