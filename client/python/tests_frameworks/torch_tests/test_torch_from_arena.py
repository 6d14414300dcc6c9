"""Copies out of the arena. CUDA is played by a stand-in that copies as late as the loop lets it."""

import contextlib
import ctypes
import gc
import logging
import re
import threading
import time
import types

import bulkhead
import numpy as np
import pytest
import torch
from bulkhead import torch as bulkhead_torch
from bulkhead._adapters.torch_device import Cuda
from bulkhead.torch import Dataset
from conftest import PACKED_OFFSETS, PACKED_RUNS, numbers, packed_runs

SAMPLES, BATCH = 4096, 64


class LateCuda:
    """Copies when `backlog` copies are behind, or when told to `hurry`, and keeps no source alive itself."""

    def __init__(self, refusal="", backlog=2):
        self.refusal = refusal
        self.backlog = backlog
        self.behind = self.most_behind = 0
        self.hurry = False
        self.changed = threading.Condition()
        self.registered = {}  # bytes by address
        self.registrations = 0
        self.unregistered = 0
        self.pinned = []

    def start(self, tensors, pin):
        copies = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
        self.pinned += pin
        for name in pin:
            copies[name].copy_(tensors[name])
        sources = []
        for name in tensors.keys() - set(pin):
            size = tensors[name].numel() * tensors[name].element_size()
            sources.append((copies[name], tensors[name].data_ptr(), size))
        with self.changed:
            self.behind += 1
            self.most_behind = max(self.most_behind, self.behind)
            self.changed.notify_all()
        return copies, sources

    def arrive(self, copies, copied):
        pass

    def wait(self, copied):
        with self.changed:
            self.changed.wait_for(lambda: self.hurry or self.behind >= self.backlog)
            self.behind -= 1
        for copy, source, size in copied:
            assert any(a <= source and source + size <= a + n for a, n in self.registered.items())
            ctypes.memmove(copy.data_ptr(), source, size)

    def finish(self):
        with self.changed:
            self.hurry = True
            self.changed.notify_all()

    def register(self, memory):
        if not self.refusal:
            self.registered[memory.__array_interface__["data"][0]] = memory.nbytes
            self.registrations += 1
        return self.refusal

    def unregister(self, memory):
        memory.sum()  # a fault where it is not mapped any more
        del self.registered[memory.__array_interface__["data"][0]]
        self.unregistered += 1


@pytest.fixture
def cuda(monkeypatch):
    """Takes the place of CUDA for device="cuda"."""
    late = LateCuda()
    monkeypatch.setattr(bulkhead_torch, "Cuda", lambda device: late)
    return late


def from_arena(spec, *arguments, **options):
    return Dataset(spec, *arguments, device="cuda", from_arena=True, **options)


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def all_numbers(elements):
    return torch.cat([element["index"] for element in elements]).tolist()


@pytest.mark.parametrize("credits,in_flight", [(4, 2), (4, 6), (2, 1), (3, 1)])
def test_a_slot_stays_until_its_copy_is_done(cuda, credits, in_flight):
    cuda.backlog = credits  # all that may be held: the next batch comes when a copy is done
    with from_arena(numbers(SAMPLES, BATCH), credits=credits, in_flight=in_flight) as dataset:
        elements = list(dataset)
        assert dataset.loader.held_slots > 0
        cuda.finish()
        wait_until(lambda: dataset.loader.held_slots == 0)
    assert all_numbers(elements) == list(range(SAMPLES))
    assert (cuda.registrations, cuda.most_behind, cuda.pinned) == (1, credits, [])


def test_a_slot_goes_back_when_its_copy_is_done_whatever_the_loop_does_meanwhile(cuda):
    cuda.hurry = True
    with from_arena(numbers(SAMPLES, BATCH)) as dataset:
        next(iter(dataset))
        wait_until(lambda: dataset.loader.held_slots == 0)


def test_a_dropped_dataset_ends_its_copies_before_the_mapping_goes(cuda):
    elements = list(from_arena(numbers(2 * BATCH, BATCH)))
    gc.collect()
    assert len(cuda.registered) == 1
    cuda.finish()
    wait_until(lambda: not cuda.registered)
    assert all_numbers(elements) == list(range(2 * BATCH))
    wait_until(lambda: "bulkhead-copies" not in {thread.name for thread in threading.enumerate()})


def test_an_array_that_is_kept_keeps_the_registration(cuda):
    cuda.hurry = True
    dataset = from_arena(numbers(256, BATCH), in_flight=1)
    next(iter(dataset))
    kept = np.asarray(dataset.loader.next_batch()["index"])
    dataset.close()
    del dataset
    gc.collect()
    assert kept.tolist() == list(range(BATCH, 2 * BATCH)) and len(cuda.registered) == 1
    del kept
    wait_until(lambda: cuda.unregistered == 1)


def test_what_lies_beside_the_arena_is_pinned(cuda, tmp_path, caplog):
    with caplog.at_level(logging.WARNING), from_arena(packed_runs(tmp_path, epochs=1)) as dataset:
        elements = list(dataset)
        cuda.finish()
        wait_until(lambda: dataset.loader.held_slots == 0)
    assert [element["runs"].tolist() for element in elements] == PACKED_RUNS
    assert [element["runs_offsets"].tolist() for element in elements] == PACKED_OFFSETS
    assert cuda.pinned == ["runs_offsets"] * 3 and "pinned" not in caplog.text


def test_the_arena_of_a_restarted_service_is_registered_anew(cuda, service):
    with from_arena(numbers(SAMPLES, BATCH), service.target) as dataset:
        elements = []
        for number, element in enumerate(dataset):
            elements.append(element)
            if number == 20:
                service.kill()
                service.start()
        assert dataset.loader.reconnects == 1 and cuda.registrations == 2
        cuda.finish()
        wait_until(lambda: cuda.unregistered == 1 and dataset.loader.held_slots == 0)
    assert all_numbers(elements) == list(range(SAMPLES))


def test_pinned_memory_is_the_way_where_the_arena_cannot_be_registered(cuda, caplog):
    cuda.refusal = "cudaHostRegister: not supported"
    with caplog.at_level(logging.WARNING), from_arena(numbers(SAMPLES, BATCH)) as dataset:
        elements = list(dataset)
        assert dataset.loader.held_slots == 0
    assert all_numbers(elements) == list(range(SAMPLES)) and len(cuda.pinned) == SAMPLES // BATCH
    told = [record.message for record in caplog.records if "pinned" in record.message]
    assert told == [
        "batches are copied to pinned memory on their way to the GPU: cudaHostRegister: not supported"
    ]


def test_pinned_memory_is_the_way_over_grpc(cuda, caplog):
    with caplog.at_level(logging.WARNING), from_arena(numbers(128, BATCH), transport="grpc") as dataset:
        assert all_numbers(list(dataset)) == list(range(128))
    assert len(cuda.pinned) == 2 and "do not come over shared memory" in caplog.text


@pytest.mark.parametrize("device", [None, "meta"])
def test_only_a_gpu_reads_the_arena(device):
    with pytest.raises(bulkhead.InvalidArgument, match="give device='cuda'"):
        Dataset(numbers(32, 4), device=device, from_arena=True)


class Runtime:
    """What torch.cuda.cudart() gives."""

    def __init__(self, status):
        self.status, self.asked = status, []

    def cudaHostRegister(self, *words):
        self.asked.append(words)
        return self.status

    def cudaGetErrorString(self, status):
        return {801: "not supported"}[status]

    def cudaHostUnregister(self, *words):
        self.asked.append(words)
        return self.status


@pytest.mark.parametrize("status,why", [(0, ""), (801, "cudaHostRegister: not supported (801)")])
def test_memory_is_registered_by_address_and_size_and_refusals_are_told(monkeypatch, status, why):
    runtime = Runtime(status)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: types.SimpleNamespace(device=device))
    guards = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext(guards.append(device)))
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    forgotten = []
    monkeypatch.setattr(Cuda, "_forget_error", lambda self: forgotten.append(self))
    cuda = Cuda(torch.device("cuda"))
    memory = np.zeros(4096, np.uint8)
    address = memory.__array_interface__["data"][0]
    assert cuda.register(memory) == why and len(forgotten) == (status != 0)
    cuda.unregister(memory)
    assert runtime.asked == [(address, 4096, 1), (address,)]
    assert guards == [torch.device("cuda", 3)] * 2


@pytest.mark.skipif(not hasattr(torch._C, "_cudart"), reason="needs a PyTorch with CUDA")
@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without a GPU")
def test_the_runtime_of_cuda_says_itself_why_it_refuses(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "cudart", lambda: torch._C._cudart)
    why = Cuda(torch.device("cuda", 0)).register(np.zeros(4096, np.uint8))
    assert re.fullmatch(r"cudaHostRegister: .*CUDA.* \((35|100)\)", why)  # no driver, or no device


class SlowCuda(Cuda):
    """Its stream is busy with something else before every copy."""

    def start(self, tensors, pin):
        assert not pin
        with torch.cuda.stream(self._stream):
            torch.cuda._sleep(20_000_000)
        return super().start(tensors, pin)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_reads_the_arena(monkeypatch):
    monkeypatch.setattr(bulkhead_torch, "Cuda", SlowCuda)
    samples, batch = 1 << 24, 1 << 19  # 32 batches of 4 MiB
    with from_arena(numbers(samples, batch), in_flight=3) as dataset:
        sums = [element["index"].sum() for element in dataset]  # none waits for another
    first = torch.arange(0, samples, batch)
    assert torch.stack(sums).cpu().tolist() == (first * batch + batch * (batch - 1) // 2).tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_goes_on_after_a_refusal():
    cuda = Cuda(torch.device("cuda"))
    assert cuda.register(np.frombuffer(b"", np.uint8)) != ""
    assert torch.ones(4, device="cuda").sum().item() == 4
