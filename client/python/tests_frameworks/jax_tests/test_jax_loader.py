import gc
import json

import bulkhead
import bulkhead.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bulkhead.jax import Loader
from conftest import (
    PACKED_OFFSETS,
    PACKED_RUNS,
    check_arguments,
    check_facts,
    check_healing,
    numbers,
    packed_runs,
    run_python,
)


INT32 = numbers(64, 8, stages=[{"cast": {"input": "index", "dtype": "int32"}}])


def firsts(batches):
    return [int(batch["index"][0]) for batch in batches]


ON_THE_CPU = pytest.mark.skipif(jax.default_backend() != "cpu", reason="arrays are copied to another device")


@ON_THE_CPU
def test_arrays_view_the_slot_and_keep_it_until_they_die():
    with Loader(INT32, copy_below=0) as loader:
        assert loader.loader.transport == "shm"
        kept = next(iter(loader))["index"]
        assert loader.loader.held_slots == 1
        assert firsts(loader) == list(range(8, 64, 8))
        gc.collect()
        assert kept.tolist() == list(range(8)) and loader.loader.held_slots == 1
        del kept
        gc.collect()
        assert loader.loader.held_slots == 0


def test_validation_begins_anew_with_each_loop():
    with Loader(numbers(24, 8), in_flight=2) as loader:
        validation = loader.validation()
        next(iter(validation))  # and left early
        assert [firsts(validation) for _ in range(2)] == 2 * [[0, 8, 16]] and len(validation) == 3


@ON_THE_CPU
def test_no_byte_is_copied_on_the_cpu():
    with Loader(INT32, copy_below=0) as loader:
        batch = loader.loader.next_batch()
        array = loader._send(batch)["index"]
        assert array.unsafe_buffer_pointer() == batch["index"].ctypes.data


LARGE = 1 << 15  # numbers of 4 bytes: more than is copied
STEPS = 40


def summing_step(rounds):
    """A step that adds the batch's numbers to the state, behind so many rounds of other work."""

    @jax.jit
    def step(state, numbers):
        work = numbers[: 128 * 128].astype(jnp.float32).reshape(128, 128)
        work = jax.lax.fori_loop(0, rounds, lambda _, work: jnp.tanh(work @ work), work)
        total, count = state
        idle = (work.sum() > 1e30).astype(jnp.int32)
        return total + numbers.sum() % 1009 + idle, count + 1

    return step


@pytest.mark.parametrize("rounds,log_every", [(1, None), (500, None), (1, 10), (500, 10)])
def test_a_loop_that_waits_for_no_step_goes_on(rounds, log_every):
    """JAX drops the memory of a step that is done only when Python collects."""
    cast = {"cast": {"input": "index", "dtype": "int32"}}
    step, state, logged = summing_step(rounds), (jnp.int32(0), jnp.int32(0)), []
    with Loader(numbers(STEPS * LARGE, LARGE, stages=[cast]), timeout=60) as loader:
        assert loader.loader.transport == "shm"
        for number, batch in enumerate(loader, 1):
            state = step(state, batch["index"])
            if log_every is not None and number % log_every == 0:
                logged.append(int(state[1]))
    sums = np.arange(STEPS * LARGE, dtype=np.int32).reshape(STEPS, LARGE).sum(1, dtype=np.int32)
    assert [int(value) for value in state] == [int((sums % 1009).sum()), STEPS]
    assert logged == list(range(10, STEPS + 1, 10) if log_every is not None else [])


def test_labels_that_are_kept_keep_no_slot():
    with Loader(INT32, timeout=30) as loader:
        labels = [batch["index"] for batch in loader]
        assert jnp.concatenate(labels).tolist() == list(range(64)) and loader.loader.held_slots == 0


def test_elements_come_in_the_structure_that_is_asked_for():
    with Loader(numbers(16, 8), structure=("index", {"x": "index"})) as loader:
        for number, also in loader:
            assert isinstance(number, jax.Array) and (number == also["x"]).all()
    with pytest.raises(
        bulkhead.InvalidArgument, match="'image'; the pipeline's outputs are 'index'"
    ):
        Loader(numbers(16, 8), structure="image")


def test_integers_of_64_bits_become_those_that_jax_has():
    with Loader(numbers(16, 8)) as loader:
        (first, second) = loader
    assert first["index"].dtype == np.int32 and second["index"].tolist() == list(range(8, 16))


def test_byte_strings_are_rows_of_uint8(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    source = {"image_list": {"entries": ["x.png 1", "x.png 2"], "max_path_bytes": 8}}
    spec = {"source": source, "batch": {"size": 2}, "outputs": ["path", "label"]}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    with Loader(tmp_path / "spec.json", structure="path") as loader:
        (paths,) = loader
    assert paths.shape == (2, 8) and bytes(paths[1].tolist()) == b"x.png\0\0\0"


def test_it_resumes():
    with Loader(numbers(32, 4), in_flight=3) as loader:
        for batch in loader:
            if batch["index"][0] == 8:
                break
        state = json.loads(json.dumps(loader.state_dict()))
    assert state["consumed"] == 12
    with Loader(numbers(32, 4), cursor=state) as loader:
        assert len(loader) == 5 and firsts(loader) == [12, 16, 20, 24, 28]


def test_a_part_of_the_data_is_read_where_it_is_asked_for():
    with Loader(numbers(16, 4), rank=1, world_size=2) as loader:
        assert firsts(loader) == [4, 12]


def test_a_device_and_a_sharding_together_are_refused():
    device = jax.devices()[0]
    with pytest.raises(bulkhead.InvalidArgument, match="not both"):
        Loader(numbers(16, 4), device=device, sharding=jax.sharding.SingleDeviceSharding(device))


def test_an_output_without_a_sharding_is_refused():
    with pytest.raises(bulkhead.InvalidArgument, match="nothing for 'index'"):
        Loader(numbers(16, 4), sharding={})


SHARDED = """
import json, jax, numpy, bulkhead.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(numpy.array(jax.devices()), ("data",))
sharding = NamedSharding(mesh, PartitionSpec("data"))
spec = {"source": {"range": {"size": 16}}, "batch": {"size": 8}}
for given in (sharding, {"index": sharding}):
    with bulkhead.jax.Loader(spec, sharding=given) as loader:
        for batch in loader:
            array = batch["index"]
            total = int(jax.jit(lambda x: x.sum())(array))
            print([shard.data.tolist() for shard in array.addressable_shards], total)
"""


def test_a_batch_is_spread_over_the_devices_of_a_sharding():
    output = run_python("-c", SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=4", JAX_PLATFORMS="cpu")
    expected = ["[[0, 1], [2, 3], [4, 5], [6, 7]] 28", "[[8, 9], [10, 11], [12, 13], [14, 15]] 92"]
    assert output.splitlines() == 2 * expected


def test_a_killed_service_is_a_longer_wait(service):
    check_healing(Loader, service, firsts, credits=2)


def test_an_argument_that_it_lacks_is_answered():
    check_arguments(Loader)


def test_it_tells_what_its_loader_knows_and_is_true_when_nothing_is_left(tmp_path):
    check_facts(Loader, tmp_path)
    with Loader(numbers(16, 8, epochs=1)) as loader:
        for _ in loader:
            pass
        assert len(loader) == 0 and bool(loader)


def test_packed_rows_are_arrays_with_offsets(tmp_path):
    with Loader(packed_runs(tmp_path), structure=("runs", "runs_offsets")) as loader:
        found = [(runs.tolist(), offsets.tolist()) for runs, offsets in loader]
    assert found == list(zip(PACKED_RUNS, PACKED_OFFSETS))


def test_packed_rows_cannot_be_sharded(tmp_path):
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    with pytest.raises(bulkhead.InvalidArgument, match="'runs', 'runs_offsets' cannot be sharded"):
        Loader(packed_runs(tmp_path), sharding=sharding)
    with Loader(packed_runs(tmp_path), structure="runs_count", sharding=sharding) as loader:
        assert next(iter(loader)).tolist() == [0, 1, 2, 3]
