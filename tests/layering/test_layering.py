"""Includes point one way only; the checker itself is seen to catch what it is for."""

import os
import pathlib

import pytest
import rules

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def test_tree_keeps_the_rules():
    assert rules.violations(ROOT) == []


def test_checker_reads_the_tree():
    # A checker that looks in the wrong place finds no violations either.
    assert (ROOT / "server/base/error.h").is_file()
    assert len(list((ROOT / "server").rglob("*.cc"))) >= 3


def plant(root: pathlib.Path, path: str, *lines: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "include", "part_of_message"),
    [
        ("server/base/a.cc", '"server/os/spawn.h"', "server/base may not include server/os"),
        ("server/service/a.cc", '"server/image/decode.h"', "server/service may not include server/image"),
        ("server/service/a.cc", '"server/pipeline/pipeline.h"', "server/service may not include server/pipeline"),
        ("server/service/a.cc", '"server/stages/warp/run.h"', "server/service may not include server/stages/run"),
        ("server/spec/a.cc", '"server/stages/running/value.h"', "may not include server/stages/run"),
        ("server/stages/warp/run.cc", '"server/pipeline/pipeline.h"', "server/stages/run may not include server/pipeline"),
        ("server/data/a.cc", '"server/source/file.h"', "server/data may not include server/source"),
        ("server/supervisor/a.cc", '"server/source/source.h"', "server/supervisor may not include server/source"),
        ("server/supervisor/a.cc", '"server/service/service.h"', "may not include server/service"),
        ("server/source/a.cc", '"server/spec/parse.h"', "of server/spec, not server/spec/parse.h"),
        ("client/cpp/bulkhead/a.cc", '"server/base/error.h"', "client/cpp may not include server/base"),
        ("server/pipeline/a.cc", "<opencv2/core.hpp>", "OpenCV shows in server/image only"),
        ("tools/synth/a.cc", "<jpeglib.h>", "codec libraries"),
        ("server/pipeline/a.cc", "<spng.h>", "codec libraries"),
        ("server/source/a.cc", "<webp/decode.h>", "codec libraries"),
        ("server/source/a.cc", "<isa-l/crc.h>", "ISA-L"),
        ("server/supervisor/a.cc", '"server/metrics/series.h"', "may not include server/metrics"),
        ("server/metrics/a.cc", '"server/supervisor/supervisor.h"', "may not include server/supervisor"),
        ("server/app/a.cc", "<prometheus/registry.h>", "prometheus-cpp"),
        ("server/source/a.cc", "<curl/curl.h>", "libcurl and libexpat"),
        ("server/app/a.cc", "<expat.h>", "libcurl and libexpat"),
        ("server/objects/a.cc", '"server/source/file.h"', "server/objects may not include server/source"),
        ("server/spec/a.cc", "<openssl/evp.h>", "OpenSSL"),
        ("server/supervisor/a.cc", "<sys/prctl.h>", "server/os"),
        ("server/source/a.cc", "<sys/epoll.h>", "server/os"),
        ("server/worker/a.cc", "<sys/mman.h>", "server/os"),
        ("server/sampler/a.cc", "# include <unistd.h>", "server/os"),
        ("tools/common/a.cc", '"tools/local/local_pipeline.h"', "tools/common may not include tools/local"),
        ("tools/measure/a.cc", '"tools/explain/explain_report.h"', "tools/measure may not include tools/explain"),
        ("client/cpp/internal/rpc/a.cc", '"client/cpp/internal/batch/a.h"', "rpc may not include client/cpp/internal/batch"),
        ("client/cpp/internal/attic/a.cc", '"client/cpp/internal/batch/a.h"', "internal/attic is no folder"),
        ("tools/attic/a.cc", '"tools/local/local_pipeline.h"', "tools/attic is no folder"),
        ("server/supervisor/leases/a.cc", '"server/supervisor/pool/crew.h"', "leases may not include server/supervisor/pool"),
        ("server/supervisor/memory/a.cc", '"server/supervisor/pools.h"', "memory may not include server/supervisor ("),
        ("server/cellar/a.cc", '"server/base/error.h"', "no room"),
    ],
)
def test_checker_catches(tmp_path, path, include, part_of_message):
    line = include if include.startswith("#") else f"#include {include}"
    plant(tmp_path, path, "// a comment", line)
    found = rules.violations(tmp_path)
    assert len(found) == 1
    assert part_of_message in found[0]
    assert found[0].startswith(f"{path}:{1 if 'no room' in part_of_message else 2}: ")


@pytest.mark.parametrize(
    "line",
    [
        "const absl::Time deadline = absl::Now() + patience;",
        "if (deadline < absl::Now()) return;",
        "mutex_.AwaitWithTimeout(absl::Condition(&done), patience);",
        "changed_.WaitWithDeadline(&mutex_, deadline);",
    ],
)
def test_checker_catches_waits_by_the_wall_clock(tmp_path, line):
    plant(tmp_path, "server/service/a.cc", line, "record.set_time(absl::ToUnixSeconds(absl::Now()));")
    assert [message.partition(": ")[0] for message in rules.violations(tmp_path)] == ["server/service/a.cc:1"]


def test_checker_catches_measures_by_the_wall_clock(tmp_path):
    plant(tmp_path, "tools/a.cc", "first_ = absl::Now();", "absl::StrCat(getpid(), absl::ToUnixNanos(absl::Now()));")
    assert [message.partition(": ")[0] for message in rules.violations(tmp_path)] == ["tools/a.cc:1"]


@pytest.mark.parametrize(
    ("folder", "line", "message"),
    [
        ("_batch", "from .._stream.events import Progress", "_batch may not import _stream"),
        ("_service", "from .. import errors, _loader", "_service may not import _loader"),
        ("_service", "from .. import (\n    errors,\n    _loader,\n)", "_service may not import _loader"),
        ("_attic", "from .. import errors", "_attic is no folder of the picture; add it to rules.py"),
        ("_trial/worker", "from ..._stream import stream", "_trial may not import _stream"),
    ],
)
def test_checker_catches_imports(tmp_path, folder, line, message):
    plant(tmp_path, f"{rules.PACKAGE}/{folder}/a.py", "import os", line, "from .other import thing")
    assert rules.violations(tmp_path) == [f"{rules.PACKAGE}/{folder}/a.py:2: {message}"]


def test_checker_lets_good_includes_pass(tmp_path):
    plant(tmp_path, "server/source/a.cc", '#include "server/spec/signature.h"', "#include <sys/mman.h>")
    plant(tmp_path, "server/image/a.cc", "#include <opencv2/core.hpp>", '#include "server/base/error.h"')
    plant(tmp_path, "server/os/a.cc", "#include <sys/prctl.h>", "#include <linux/landlock.h>")
    plant(tmp_path, "server/service/a.cc", '#include "server/supervisor/x.h"', '#include "bulkhead/v1/types.pb.h"')
    plant(tmp_path, "tools/a.cc", '#include "client/cpp/bulkhead/loader.h"', "#include <vector>")
    plant(tmp_path, "client/cpp/internal/batch/a.cc", '#include "client/cpp/internal/base/error.h"')
    plant(tmp_path, f"{rules.PACKAGE}/_stream/a.py", "from .. import errors", "from .._batch.batch import (Batch)")
    plant(tmp_path, f"{rules.PACKAGE}/a.py", "from ._stream.stream import Stream")
    assert rules.violations(tmp_path) == []
