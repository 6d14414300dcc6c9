"""What a client sends of its dataset, to services that drop, refuse and are silent."""

import threading

import bulkhead
import numpy as np
import pytest
from bulkhead._dataset import upload as upload_module
from bulkhead._dataset.image import Image
from bulkhead._dataset.upload import Upload
from bulkhead._rpc import grpc_library, proto

grpc = grpc_library.load()


class Refusal(grpc.RpcError):
    def __init__(self, reason):
        info = proto.RpcErrorInfo(reason=reason)
        status = proto.RpcStatus()
        status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
        self._trailers = (("grpc-status-details-bin", status.SerializeToString()),)

    def code(self):
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def details(self):
        return "there is no room"

    def trailing_metadata(self):
        return self._trailers


class Call:
    """The answer is there at once, or never."""

    def __init__(self, answer):
        self._answer = answer
        self.cancelled = False

    def add_done_callback(self, callback):
        if self._answer is not None:
            callback(self)

    def result(self):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def cancel(self):
        self.cancelled = True


class Service:
    """Stands for the service and for the connection to it. `before(request)` may change it, or give another answer."""

    def __init__(self):
        self.kept = {}
        self.boot = "boot"
        self.requests = []
        self.calls = []
        self.before = lambda request: None
        self.channel = self

    def unary_unary(self, *_, **__):
        return self

    def close(self):
        pass

    def explain(self, failure):
        return failure

    def future(self, request, timeout):
        self.requests.append(request)
        other = self.before(request)
        self.calls.append(Call(self._put(request) if other is None else other if other != "silence" else None))
        return self.calls[-1]

    def _put(self, request):
        held = self.kept.setdefault(request.id, bytearray()) if request.data and request.offset == 0 else self.kept.get(request.id)
        if held is not None and request.offset <= len(held):
            held[request.offset : request.offset + len(request.data)] = request.data
        return proto.PutDatasetResponse(have=len(held or b""), boot_id=self.boot)

    def parts(self, id):
        return [request for request in self.requests if request.id == id and request.data]


@pytest.fixture
def service(monkeypatch):
    made = Service()
    monkeypatch.setattr(upload_module, "Connection", lambda *_: made)
    monkeypatch.setattr(upload_module, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(upload_module, "_LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(upload_module, "_PART_BYTES", 4096)
    return made


@pytest.fixture
def image():
    made = Image({"dataset": np.arange(2000), "collate": None, "worker_init": None}, {"class": "Numbers", "workers": 1, "seed": 0})
    yield made
    made.close()


def send(upload, **more):
    upload.send("unix:/nobody", bulkhead.Credentials(), **more)


def whole(image):
    return image.part(0, image.size())


def test_what_is_there_is_not_sent_again(service, image):
    upload = Upload([image], listed=False)
    send(upload)
    assert bytes(service.kept[image.digest()]) == whole(image)
    sent = len(service.parts(image.digest()))
    assert sent == -(-image.size() // 4096)
    send(upload)
    assert len(service.parts(image.digest())) == sent


def test_it_begins_again_when_the_service_drops_it_meanwhile(service, image):
    drops = [8192, 4096]  # the offsets before which it goes

    def before(request):
        if drops and request.offset == drops[0]:
            drops.pop(0)
            service.kept.clear()

    service.before = before
    send(Upload([image], listed=False))
    assert not drops and bytes(service.kept[image.digest()]) == whole(image)


def test_a_service_that_always_drops_it_does_not_have_it(service, image):
    service.before = lambda request: service.kept.clear() if request.offset else None
    with pytest.raises(bulkhead.BulkheadError, match="dropped the dataset while it was sent, 4 times") as caught:
        send(Upload([image], listed=False))
    assert caught.value.reason == "DATASET_UNKNOWN"


def test_room_that_others_have_just_now_is_waited_for(service, image):
    refused = []

    def before(request):
        if request.data and len(refused) < 20:
            refused.append(request)
            return Refusal("TOO_MANY_CALLS")

    service.before = before
    send(Upload([image], listed=False))
    assert len(refused) == 20 and bytes(service.kept[image.digest()]) == whole(image)


def test_not_for_ever_and_nothing_else(service, image, monkeypatch):
    monkeypatch.setattr(upload_module, "_BUSY_SECONDS", 0.0)
    for reason in ("TOO_MANY_CALLS", "DATASET_REFUSED"):
        service.before = lambda request: Refusal(reason)
        with pytest.raises(bulkhead.BulkheadError, match="there is no room") as caught:
            send(Upload([image], listed=False))
        assert caught.value.reason == reason
    monkeypatch.setattr(upload_module, "_BUSY_SECONDS", 1000.0)
    with pytest.raises(bulkhead.BulkheadError, match="there is no room"):
        send(Upload([image], listed=False))


@pytest.mark.parametrize("answer", ["silence", Refusal("TOO_MANY_CALLS")])
def test_a_loader_that_is_closed_waits_for_nothing(service, image, answer):
    closed = threading.Event()
    asked = threading.Event()
    failures = []

    def before(request):
        asked.set()
        return answer

    def sending():
        try:
            send(Upload([image], listed=False), closed=closed.is_set)
        except bulkhead.LoaderClosed as failure:
            failures.append(failure)

    service.before = before
    thread = threading.Thread(target=sending, daemon=True)
    thread.start()
    assert asked.wait(60)
    closed.set()
    thread.join(60)
    assert failures and service.calls[-1].cancelled


def written(image, epoch, indices):
    image.write_list(epoch, indices)
    return Upload([image], listed=True)


def test_a_list_is_written_once_for_each_service(service, image):
    first = written(image, 0, [3, 1, 2])
    send(first)
    place = first.ids[1]
    there = bytes(service.kept[place])
    assert np.frombuffer(there, np.int64).tolist() == [1, 3, 0, 3, 1, 2]
    sent = len(service.parts(place))
    send(first)
    assert len(service.parts(place)) == sent, "a stream may read it"
    service.boot = "another"
    send(first)
    assert len(service.parts(place)) == 2 * sent
    service.boot = "boot"
    service.kept.pop(place)
    send(first)
    assert bytes(service.kept[place]) == there


def test_the_list_of_the_next_epoch_takes_the_place_of_the_one_before(service, image):
    send(written(image, 0, [3, 1, 2]))
    second = written(image, 1, [9, 8, 7])
    begun = len(service.requests)
    send(second)
    parts = [request for request in service.requests[begun:] if request.id == second.ids[1] and request.data]
    assert parts[0].data == bytes(24), "until it is there it is of no epoch"
    assert np.frombuffer(bytes(service.kept[second.ids[1]]), np.int64).tolist() == [2, 3, 0, 9, 8, 7]


def test_a_list_that_is_dropped_meanwhile_is_written_again(service, image):
    upload = written(image, 0, [3, 1, 2])
    drops = [1]

    def before(request):
        if request.id == upload.ids[1] and request.offset and drops:
            drops.pop()
            service.kept.clear()

    service.before = before
    send(upload)
    assert np.frombuffer(bytes(service.kept[upload.ids[1]]), np.int64).tolist() == [1, 3, 0, 3, 1, 2]


def test_two_addresses_of_one_service_write_its_list_one_after_the_other(service, image):
    upload = written(image, 0, list(range(5000)))
    writing = threading.Event()
    go_on = threading.Event()

    def before(request):
        if request.id == upload.ids[1] and request.offset and not writing.is_set():
            writing.set()
            assert go_on.wait(60)

    service.before = before
    threads = [threading.Thread(target=send, args=(upload,), daemon=True) for _ in range(2)]
    threads[0].start()
    assert writing.wait(60)
    threads[1].start()
    while sum(request.id == upload.ids[1] and not request.data for request in service.requests) < 3:
        pass  # until the second one has asked, too
    go_on.set()
    for thread in threads:
        thread.join(60)
    heads = [request for request in service.parts(upload.ids[1]) if request.offset == 0 and request.data == bytes(24)]
    assert len(heads) == 1, "the first one's stream may read it by then"
