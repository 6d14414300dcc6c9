"""How loaders, batches, schemas and pipelines show themselves, as text and as HTML."""

import html.parser
import json

import numpy as np
import pytest

import bulkhead
from bulkhead import _meter
from bulkhead._batch.batch import Batch, Layout
from bulkhead._batch.schema import Schema, TensorSpec
from bulkhead._display import amounts, html as html_module
from bulkhead._words import did_you_mean, printable, printable_lines


class Tables(html.parser.HTMLParser):
    """The rows of all tables, and the tags; fails for HTML whose tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.text, self._open = [], set(), "", []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self._open.append(tag)
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def shown(thing):
    return Tables(thing._repr_html_())


PLAIN = {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}


def test_a_batch_shows_its_outputs_with_their_span(fake):
    batch = fake.open(samples=20, batch=8).next_batch()
    tables = shown(batch)
    assert tables.tags <= PLAIN and tables.text.startswith("Batch")
    assert ["epoch", "0"] in tables.rows and ["samples", "8"] in tables.rows
    assert ["output", "dtype", "shape", "min", "max", "classes"] in tables.rows
    assert ["index", "int64", "[8]", "0", "7", ""] in tables.rows
    assert ["pix", "uint8", "[8, 3]", "0", "7", ""] in tables.rows
    assert repr(batch) == "Batch(epoch=0, sequence=0, samples=8, {index: int64[8], pix: uint8[8, 3]})"


class Header:
    epoch, sample_count, valid_count, batches_left_in_epoch, first_position = 2, 3, 2, 0, 5


def made(arrays, **classes):
    return Batch(arrays, Header, 7, {"quarantined": []}, Layout((), (), (), 3, 0, (), {}, classes))


def test_names_are_escaped_and_cannot_mislead():
    evil = "<script>alert(1)</script>\u202e\x1b[2J"
    batch = made({evil: np.float32([0.5, np.nan, 1]), "b": np.array([b"<b>"])}, b=("<img onerror=x>", "&"))
    text = batch._repr_html_()
    assert "<script" not in text and "<img" not in text and "\u202e" not in text and "\x1b" not in text
    rows = shown(batch).rows
    assert [r"<script>alert(1)</script>\u202e\x1b[2J", "float32", "[3]", "nan", "nan", ""] in rows
    assert ["b", "|S3", "[1]", "", "", "2: <img onerror=x>, &"] in rows
    assert ["genuine", "2"] in rows


@pytest.mark.parametrize(
    "array, span",
    [
        (np.zeros((0, 3), np.uint8), ("", "")),
        (np.float16([1.5, -2]), ("-2", "1.5")),
        (np.array([True, False]), ("False", "True")),
        (np.complex64([1]), ("", "")),
        (np.int64([1 << 60, -5]), ("-5", str(1 << 60))),
        (np.float64([1 / 3]), ("0.333333", "0.333333")),
    ],
)
def test_the_span_of_any_array(array, span):
    assert amounts.span(array) == span


def test_a_loader_shows_where_it_stands(fake):
    loader = fake.open(samples=20, batch=8, epochs=3)
    loader.next_batch()
    tables = shown(loader)
    rows = dict(row for row in tables.rows if len(row) == 2)
    assert tables.text.startswith("Loader") and tables.tags <= PLAIN
    assert rows["epoch"] == "0" and rows["batches"] == "1 seen, 2 left in the epoch"
    assert rows["spec"] == "spec" and loader.target in rows["service"] and loader.transport in rows["service"]
    assert ["pix", "uint8", "[3]", "samples [?, 3]", ""] in tables.rows
    text = repr(loader)
    assert text.startswith("<Loader spec: spec, service: unix:") and "index: int64[]; pix: uint8[3]" in text
    loader.close()
    assert "service: closed" in repr(loader) and "batches: 1 seen>" in repr(loader)
    assert ["service", "closed"] in shown(loader).rows


def test_a_loader_that_never_opened_shows_itself():
    failed = object.__new__(bulkhead.Loader)
    with pytest.raises(bulkhead.InvalidArgument):
        failed.__init__({}, timeout=-1)
    for loader in (failed, object.__new__(bulkhead.Loader)):
        assert repr(loader) == "<Loader spec: , service: closed, epoch: 0, batches: 0 seen>"
        assert shown(loader).text.startswith("Loader")


def test_a_loader_that_is_closed_meanwhile_shows_itself(fake, monkeypatch):
    loader = fake.open(samples=20, batch=8)
    asked = type(loader)._is_open

    def closed_behind(self):
        was_open = asked(self)
        self.close()  # as another thread may at any time
        return was_open

    monkeypatch.setattr(type(loader), "_is_open", closed_behind)
    assert "index: int64[]; pix: uint8[3]" in repr(loader)
    monkeypatch.undo()
    assert "service: closed" in repr(loader)


def test_a_schema_is_a_tuple_that_shows_itself(fake):
    schema = fake.open().schema
    assert isinstance(schema, tuple) and repr(schema) == "Schema(index: int64[], pix: uint8[3])"
    names = tuple(f"class{i}" for i in range(1000))
    label = TensorSpec("label", np.dtype(np.int64), (), "int64", batch_shape=(None,), class_names=names)
    assert len(repr(label)) < 120 and repr(label).endswith("class7, …)")
    rows = shown(Schema([label])).rows
    assert rows[1][:4] == ["label", "int64", "[]", "samples [?]"] and rows[1][4].startswith("1000: class0,")


def test_stats_and_pipelines_show_themselves(fake):
    stats = fake.open().stats._replace(bytes=3 << 29)
    rows = shown(stats).rows
    assert ["bytes", "1.5 GiB"] in rows and ["wait seconds", f"{stats.wait_seconds:.3f} s"] in rows
    pipeline = bulkhead.Pipeline.image_folder("<photos>").decode_image().resize(size=8).batch(4)
    rows = shown(pipeline).rows
    assert ["image_folder", ".image_folder(path='<photos>')"] in rows and ["resize", ".resize(size=8)"] in rows


class Metered:
    rank, stats = 3, bulkhead.LoaderStats(1, 8, 800, 0.0, 2, 5, 7)


def test_a_meter_shows_what_it_would_read_and_does_not_read(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(_meter.time, "monotonic", lambda: clock[0])
    loader = Metered()
    meter = bulkhead.Meter(loader)
    loader.stats, clock[0] = loader.stats._replace(samples=12353, wait_seconds=0.25), 101.0
    assert repr(meter) == (
        "<Meter loader/rank3/samples_per_second: 12345, loader/rank3/wait_share: 0.25, loader/rank3/ready_batches: 5, "
        "loader/rank3/held_slots: 7, loader/rank3/reconnects: 2>"
    )
    tables = shown(meter)
    assert tables.text.startswith("Meter") and tables.tags <= PLAIN and ["loader/rank3/samples_per_second", "12345"] in tables.rows
    assert meter.read()["loader/rank3/samples_per_second"] == 12345


def test_a_meter_log_shows_where_it_writes_and_what_the_service_said():
    class Run:
        def log(self, figures, step):
            pass

    log = bulkhead.MeterLog(Metered(), Run(), every=2)
    log._texts["loader/rank3/verdict"] = "<b>clean</b>"
    log(0)
    assert repr(log).startswith("<MeterLog to: Run, steps: 1 seen, written every 2, loader/rank3/samples_per_second: ")
    assert repr(log).endswith("loader/rank3/verdict: <b>clean</b>>")
    rows = shown(log).rows
    assert ["to", "Run"] in rows and ["loader/rank3/verdict", "<b>clean</b>"] in rows and ["loader/rank3/held_slots", "7"] in rows


def tried(position, *differences):
    return bulkhead.TriedSample(position, (), (), (), differences)


@pytest.mark.parametrize(
    "trial, rows",
    [
        (bulkhead.StageTrial("a:f", [tried(0), tried(1)], ""), [["samples", "2"], ["in a worker", "the same bytes"]]),
        (
            bulkhead.StageTrial("a:f", [tried(0, "x: <1>", "y: 2"), tried(7, "x: <1>")], "", "batch"),
            [["batches", "2"], ["in a worker", "other bytes"], ["positions", "difference"], ["0, 7", "x: <1>"], ["0", "y: 2"]],
        ),
        (bulkhead.StageTrial("a:f", [tried(0)], "ValueError: <no>"), [["samples", "1"], ["in a worker", "fails: ValueError: <no>"]]),
    ],
    ids=["equal", "other bytes", "fails"],
)
def test_a_trial_shows_where_a_worker_differs(trial, rows):
    tables = shown(trial)
    assert tables.text.startswith("StageTrial") and tables.tags <= PLAIN
    assert tables.rows == [["function", "a:f"], *rows]


def test_a_long_table_is_cut():
    tables = Tables(html_module.table(("a",), ((i,) for i in range(1000))))
    assert len(tables.rows) == 201 and tables.text.endswith("and 800 more")


def test_text_is_one_bounded_line():
    assert printable("a\nb\tc\x00\u2066d\u2028é\U0001f600") == "a\\x0ab\\x09c\\x00\\u2066d\\u2028é\U0001f600"
    assert len(printable("x" * 5000)) == 2048 and printable("x" * 5000).endswith("…")
    assert len(printable("\x1b" * 5000)) == 2048
    assert printable("\ud800") == "\\ud800" and json.dumps(printable("\udfff"))
    assert printable_lines("a\nb\n  | c\x1b") == "a\n  | b\n  | c\\x1b"


def test_the_nearest_name_is_found_whatever_its_case():
    assert did_you_mean("Lable", ["label", "image"]) == "; did you mean 'label'?"
    assert did_you_mean("lable", ["LABEL", "image"]) == "; did you mean 'LABEL'?"
    assert did_you_mean("flip", ["random_flip", "label"]) == "; did you mean 'random_flip'?"
    assert did_you_mean("flip", ["random_horizontal_flip", "random_vertical_flip", "label"]).startswith("; there are: 'random_horizontal_flip', '")
    assert did_you_mean("x", ["label", "image"]) == "; there are: label, image"
    assert did_you_mean("zz", (f"name{i}" for i in range(300))).endswith("name99, … (300 in all)")
