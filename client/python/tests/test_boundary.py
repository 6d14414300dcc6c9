"""Tracebacks of the package's errors end in the program's own line."""

import dataclasses
import traceback

import pytest

import bulkhead
from bulkhead import _boundary
from bulkhead._boundary import ends_at_caller, meant
from bulkhead._service.arguments import checked

HERE = __file__


def frames_of(call):
    """The files of the frames of what it raises, without this function's own, and the error."""
    with pytest.raises(Exception) as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    own = next(i for i, frame in enumerate(frames) if frame.name == "frames_of")
    return [frame.filename for frame in frames[own + 1 :]], caught.value


def without_target():
    bulkhead.Loader({}, worker_quota="1GB")


def mistaken_option():
    bulkhead.Pipeline.range(3).resize(64)


def unknown_method():
    return bulkhead.Pipeline.range(3).resise


def unknown_argument():
    bulkhead.Loader({}, batch_size=3)


def wrong_text():
    bulkhead.Pipeline.from_dict({"sauce": 1})


@pytest.mark.parametrize(
    "mistake", [without_target, mistaken_option, unknown_method, unknown_argument, wrong_text]
)
def test_a_mistake_ends_in_the_programs_line(mistake):
    files, error = frames_of(mistake)
    assert files == [HERE], files
    assert error.__cause__ is None and error.__suppress_context__ or error.__context__ is None


def test_so_does_an_error_within_a_loop(fake):
    def loop():
        for batch in fake.open(mode="data_error"):
            batch["index"]

    files, error = frames_of(loop)
    assert isinstance(error, bulkhead.DataError) and files == [HERE]
    loader = fake.open(samples=8, epochs=1)
    list(loader)

    def behind_the_end():
        for _ in loader.stream():
            raise AssertionError

    assert frames_of(behind_the_end)[0] == [HERE]
    loader.close()
    for property_or_method in (lambda: loader.schema, lambda: loader.set_epoch(0), lambda: len(loader)):
        files, error = frames_of(property_or_method)
        assert isinstance(error, bulkhead.LoaderClosed) and files == [HERE]


def test_so_does_an_unknown_output(fake):
    batch = fake.open().next_batch()
    files, error = frames_of(lambda: batch["idnex"])
    assert files == [HERE] and isinstance(error, KeyError)
    assert str(error) == "the batch has no output 'idnex'; did you mean 'index'?"
    assert str(frames_of(lambda: batch["zzz"])[1]).endswith("; there are: index, pix")
    assert "zzz" not in batch and batch.get("zzz") is None and "index" in batch


def test_a_variable_keeps_them_whole(monkeypatch):
    monkeypatch.setenv(_boundary.FULL, "1")
    assert len(frames_of(without_target)[0]) > 3


def test_what_the_package_did_not_mean_stays_whole():
    @ends_at_caller
    def faulty():
        raise ZeroDivisionError

    assert len(frames_of(faulty)[0]) == 2  # the wrapper, and the function


def test_the_callers_own_frames_within_are_kept():
    def within():
        raise meant(ValueError("of a user's function"))

    files, _ = frames_of(ends_at_caller(within))
    assert files == [HERE]


def test_an_error_that_takes_no_mark_stays_itself():
    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        value: int

    def within():
        raise meant(Frozen(3))

    assert frames_of(ends_at_caller(within))[1].value == 3


def test_a_cause_stays_without_the_packages_frames():
    @ends_at_caller
    def fails():
        try:
            checked(worker_quota="much")
        except bulkhead.InvalidArgument as cause:
            raise bulkhead.BulkheadError("because") from cause

    _, error = frames_of(fails)
    assert isinstance(error.__cause__, bulkhead.InvalidArgument)
    files = [frame.filename for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert files == [HERE]


def test_a_wrapped_generator_keeps_nothing_that_it_gave():
    import weakref

    class Thing:
        pass

    @ends_at_caller
    def things():
        while True:
            yield Thing()

    given = things()
    thing = weakref.ref(next(given))
    assert thing() is None
