import json

import bulkhead
import bulkhead.keras
import keras
import pytest
from bulkhead.keras import PyDataset
from conftest import check_arguments, check_facts, numbers
from recorder import STRUCTURE, Recorder, floats


def test_keras_trains_on_every_batch_once_and_validates_from_position_0(tmp_path):
    recorder = Recorder()
    training, validation = list(range(0, 80, 8)), [0, 4, 8]
    path = tmp_path / "cursor.json"
    with (
        PyDataset(floats(80, 8), structure=STRUCTURE, endless=True) as train,
        PyDataset(floats(12, 4), structure=STRUCTURE) as valid,
    ):
        fit = dict(
            steps_per_epoch=4,
            validation_data=valid,
            validation_steps=len(valid),
            callbacks=[train.callback(str(path))],
            verbose=0,
        )
        recorder.model.fit(train, epochs=2, **fit)
        assert recorder.take() == training[:4] + validation + training[4:8] + validation
        assert train.state_dict()["consumed"] == 64
        saved = json.loads(path.read_text())
        assert saved == train.state_dict()
        recorder.model.fit(train, epochs=1, **fit)
        assert recorder.take() == training[8:] + training[:2] + validation
        train.load_state_dict(saved)
        recorder.model.fit(train, epochs=1, **fit)
        assert recorder.take() == training[8:] + training[:2] + validation


def test_a_cursor_that_could_not_be_written_is_refused_before_training(tmp_path):
    with PyDataset(numbers(24, 8), structure=("index",), endless=True) as dataset:
        with pytest.raises(bulkhead.InvalidArgument, match="no folder .*missing"):
            dataset.callback(str(tmp_path / "missing" / "cursor.json"))


def test_a_whole_epoch_is_a_pass_of_a_dataset_that_is_not_endless():
    recorder = Recorder()
    with PyDataset(floats(24, 8), structure=STRUCTURE) as dataset:
        recorder.model.fit(dataset, epochs=2, shuffle=False, verbose=0)
        assert recorder.take() == 2 * [0, 8, 16]


def test_a_pass_gives_what_an_earlier_one_got_out_of_turn():
    with PyDataset(numbers(24, 8, deterministic=False), structure=("index",)) as dataset:
        place = {"completed": [2], "batch_size": 8, "world_size": 1}
        dataset.load_state_dict({**dataset.state_dict(), **place})
        assert sorted(int(dataset[index][0][0]) for index in range(3)) == [0, 8, 16]


def test_another_order_is_refused_with_advice():
    with PyDataset(numbers(24, 8), structure=("index",)) as dataset:
        assert dataset[0][0].tolist() == list(range(8))
        with pytest.raises(
            bulkhead.InvalidArgument,
            match="batch 2 where batch 1 is next.*shuffle=False.*`.workers`",
        ):
            dataset[2]
        assert dataset[1][0].tolist() == list(range(8, 16))


def test_nobody_knows_what_was_trained_on_unless_it_is_told():
    with PyDataset(numbers(24, 8), structure=("index",), endless=True) as dataset:
        assert dataset.num_batches is None and len(dataset) == 3
        dataset[0]
        with pytest.raises(bulkhead.InvalidArgument, match="callback"):
            dataset.state_dict()


def test_behind_the_last_epoch_there_is_an_error():
    with PyDataset(numbers(16, 8, epochs=1), structure=("index",), endless=True) as dataset:
        assert [int(dataset[index][0][0]) for index in range(2)] == [0, 8]
        with pytest.raises(bulkhead.EpochsExhausted):
            dataset[2]


def test_a_killed_service_is_a_longer_wait_in_the_midst_of_training(service):
    recorder = Recorder()

    def restart(batch, logs):
        if batch == 5:
            service.kill()
            service.start()

    with PyDataset(
        floats(800, 8), service.target, structure=STRUCTURE, endless=True, credits=2
    ) as train:
        callbacks = [train.callback(), keras.callbacks.LambdaCallback(on_train_batch_end=restart)]
        recorder.model.fit(train, steps_per_epoch=len(train), callbacks=callbacks, verbose=0)
        assert recorder.take() == list(range(0, 800, 8))
        assert train.loader.reconnects == 1
        place = train.state_dict()
        assert (place["epoch"], place["consumed"]) == (1, 0)


def test_an_argument_that_it_lacks_is_answered():
    check_arguments(PyDataset)


def test_it_tells_what_its_loader_knows(tmp_path):
    check_facts(PyDataset, tmp_path)
