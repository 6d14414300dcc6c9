"""Preparation as a line on a terminal, or as a bar."""

import io
import sys
import types

import pytest

import bulkhead
from bulkhead import _progress_line

PREPARING = {"progress": 3, "samples": 8}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


@pytest.fixture
def with_tqdm(monkeypatch):
    """A tqdm with Bar for its bars, in notebooks with NotebookBar; ipywidgets is there if `widgets` says so."""
    tqdm, std, notebook = (types.ModuleType(name) for name in ("tqdm", "tqdm.std", "tqdm.notebook"))
    tqdm.std, tqdm.notebook = std, notebook
    std.tqdm, notebook.tqdm, notebook.IProgress = Bar, type("NotebookBar", (Bar,), {}), object
    for module in (tqdm, std, notebook):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    Bar.made.clear()
    return notebook


@pytest.fixture
def kernel(monkeypatch):
    """This process is a kernel of Jupyter."""
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_true_is_a_bar_where_tqdm_is(fake, with_tqdm, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    fake.open(**PREPARING, progress_seconds=0.1, loader={"progress": True})
    (bar,) = Bar.made
    assert type(bar) is Bar and bar.closed and not bar.leave and (bar.n, bar.total) == (2, 9)
    assert sys.stderr.getvalue() == ""


def test_a_bar_is_closed_when_the_opening_fails(fake, with_tqdm, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(bulkhead.SpecError):
        fake.open(mode="spec_error", loader={"progress": True})
    assert [bar.closed for bar in Bar.made] == [True]


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_has_its_own_bar_though_it_is_no_terminal(fake, with_tqdm, kernel, monkeypatch, widgets):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    if not widgets:
        with_tqdm.IProgress = None
    fake.open(**PREPARING, loader={"progress": True})
    assert [type(bar).__name__ for bar in Bar.made] == ["NotebookBar" if widgets else "Bar"]


def test_true_shows_no_bar_where_no_terminal_is(fake, with_tqdm, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    fake.open(**PREPARING, loader={"progress": True})
    fake.open(**PREPARING)
    assert not Bar.made


def test_a_line_is_written_over_and_cleared(fake, without_tqdm, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fake.open(**PREPARING, progress_seconds=0.1, loader={"progress": True})
    shown = terminal.getvalue().split("\r")
    assert any(text.startswith("bulkhead: indexing") and "of 9 files" in text for text in shown)
    assert "\n" not in terminal.getvalue()
    assert shown[-1] == "" and shown[-2].strip() == ""


@pytest.mark.parametrize("option", [True, None, False])
def test_nothing_is_written_where_no_terminal_is_or_nobody_asked(fake, monkeypatch, option):
    text = Terminal() if option is not True else io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    fake.open(**PREPARING, loader={"progress": option})
    assert text.getvalue() == ""


class Bar:
    """As tqdm's."""

    made = []

    def __init__(self, desc="", unit="", leave=True, total=None):
        self.desc, self.unit, self.leave, self.total = desc, unit, leave, total
        self.n, self.closed, self.told = 0, False, []
        Bar.made.append(self)

    def update(self, count):
        self.n += count
        self.told.append(self.n)

    def set_description(self, desc, refresh=True):
        self.desc = desc

    def close(self):
        self.closed = True


def test_a_class_of_tqdm_makes_a_bar_that_is_closed(fake):
    Bar.made.clear()
    fake.open(**PREPARING, progress_seconds=0.1, loader={"progress": Bar})
    (bar,) = Bar.made
    assert (bar.total, bar.unit, bar.closed) == (9, "file", True)
    assert bar.n == 2 and bar.desc == "indexing 2"


def test_tqdm_itself_shows_it(fake):
    tqdm = pytest.importorskip("tqdm").tqdm
    terminal, made = io.StringIO(), []

    class Shown(tqdm):
        def __init__(self, **options):
            super().__init__(file=terminal, mininterval=0, **options)
            made.append(self)

    fake.open(**PREPARING, progress_seconds=0.1, loader={"progress": Shown})
    assert made[0].n == 2 and made[0].disable  # which is how tqdm says closed
    assert "indexing 2" in terminal.getvalue() and "2/9" in terminal.getvalue()


def test_a_bar_of_the_callers_stays_open(fake):
    bar = Bar()
    fake.open(**PREPARING, progress_seconds=0.1, loader={"progress": bar})
    assert bar.n == 2 and not bar.closed


def test_what_can_not_be_called_is_refused(fake):
    with pytest.raises(bulkhead.InvalidArgument, match="progress is True, something to call"):
        fake.open(loader={"progress": 3})
    assert not fake.opens  # before anything is asked of a service


def test_the_line_says_what_is_known(without_tqdm):
    sys_stderr, sys.stderr = sys.stderr, Terminal()
    try:
        line = _progress_line.reporter(True)
        line(bulkhead.Progress(2, 9, 12345, 7.4, "indexing a"))
        assert sys.stderr.getvalue() == (
            "\rbulkhead: indexing a, 2 of 9 files, 12,345 records, 7 s left"
        )
    finally:
        sys.stderr = sys_stderr
