"""The command line of `bulkhead` as people meet it: help, suggestions, completion, colours, where a service is found."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys


import bulkhead
from conftest import BIN, tool, write_spec

def subcommands(*begun):
    """Those of `bulkhead BEGUN`, as the command itself completes them: `scan`, `bench run`."""
    offered = tool("completion", *(f"--for={word}" for word in (*begun, ""))).splitlines()
    words = [word for word, told in (line.split("\t") for line in offered) if told]
    if begun and not words:
        return [" ".join(begun)]
    return [command for word in words for command in subcommands(*begun, word)]


def numbers(folder, **more):
    return write_spec(folder / "numbers.yaml", source={"range": {"size": 100}}, batch={"size": 10}, epochs=1, **more)


def test_each_subcommand_has_help_with_examples():
    commands = subcommands()
    assert {"scan", "bench run", "health"} <= set(commands)
    for command in commands:
        said = tool(*command.split(), "--help")
        assert f"bulkhead {command}" in said and "Example" in said and "--help" in said
        assert re.search(r"^  --json ", said, re.MULTILINE), command


def completed(line):
    """What bash offers for a line, with the script that the command itself prints."""
    script = f"""
        source <(bulkhead completion bash)
        COMP_WORDS=({line}); [[ {line!r} == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        $(complete -p bulkhead | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60,
                         env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
    assert run.stderr == ""
    return run.stdout.split()


def test_a_real_bash_completes():
    assert completed("bulkhead sc") == ["scan", "schema"]
    assert completed("bulkhead bench ") == ["run", "recovery", "leak", "decode-limit"]
    assert completed("bulkhead scan --ex") == ["--exclude-list"]
    assert completed("bulkhead stream train.yaml --transport ") == ["auto", "shm", "grpc"]
    assert completed("bulkhead completion ") == ["bash", "zsh", "fish"]
    assert completed("bulkhead scan ") == [], "bash offers files then"


def completed_by_fish(line, folder):
    """What fish offers for a line, as it would at a Tab."""
    run = subprocess.run(["fish", "--no-config", "-c", f"bulkhead completion fish | source; complete --do-complete={line!r}"],
                         capture_output=True, text=True, check=True, timeout=60, cwd=folder,
                         env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)})
    assert run.stderr == ""
    return [offered.split("\t")[0] for offered in run.stdout.splitlines()]


ZSHRC = """
autoload -U compinit; compinit -u
source <(bulkhead completion zsh)
buffer() { print -r -- "<$BUFFER>" }
zle -N buffer; bindkey '^G' buffer
PS1='ready> '
"""


def completed_by_zsh(line, folder):
    """What zsh makes of a line when Tab is pressed behind it, and what it shows before."""
    (folder / ".zshrc").write_text(ZSHRC)
    ours, theirs = pty.openpty()
    run = subprocess.Popen(["zsh", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
                           env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm", "COLUMNS": "200"})
    os.close(theirs)
    try:
        read_until(ours, "ready> ")
        os.write(ours, line.encode() + b"\t\x07")
        said = read_until(ours, r"<(bulkhead.*)>")
    finally:
        run.kill()
        run.wait()
        os.close(ours)
    return re.search(r"<(bulkhead.*)>", said)[1], said


def read_until(terminal, pattern):
    """What a program writes to a terminal, up to that."""
    said = ""
    while not re.search(pattern, said):
        said += os.read(terminal, 4096).decode(errors="replace")
    return said


def test_a_real_zsh_completes(tmp_path):
    (tmp_path / "train.yaml").touch()
    assert completed_by_zsh("bulkhead sca", tmp_path)[0] == "bulkhead scan "
    assert completed_by_zsh("bulkhead bench reco", tmp_path)[0] == "bulkhead bench recovery "
    line, said = completed_by_zsh("bulkhead sc", tmp_path)
    assert line == "bulkhead sc" and "schema" in said and "Read all data of a spec" in said
    assert completed_by_zsh("bulkhead scan --wri", tmp_path)[0] == "bulkhead scan --write-spec "
    assert completed_by_zsh("bulkhead stream x --transport sh", tmp_path)[0] == "bulkhead stream x --transport shm "
    assert completed_by_zsh("bulkhead scan tra", tmp_path)[0] == "bulkhead scan train.yaml ", "a file"


def test_a_real_fish_completes(tmp_path):
    (tmp_path / "train.yaml").touch()
    assert completed_by_fish("bulkhead sc", tmp_path) == ["scan", "schema"]
    assert completed_by_fish("bulkhead bench ", tmp_path) == ["decode-limit", "leak", "recovery", "run"]
    assert completed_by_fish("bulkhead scan --wri", tmp_path) == ["--write-spec"]
    assert completed_by_fish("bulkhead stream x --transport ", tmp_path) == ["auto", "grpc", "shm"]
    assert completed_by_fish("bulkhead scan tra", tmp_path) == ["train.yaml"]


def on_terminal(*words, **environment):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen([BIN / "bulkhead", *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                           env={**os.environ, "TERM": "xterm", **environment})
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    run.wait(60)
    return said.decode()


def test_colours_are_for_terminals(folder, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[31mbulkhead:\033[0m unknown subcommand" in on_terminal("foo")
    assert "\033[1mOptions\033[0m" in on_terminal("scan", "--help")
    good, doubtful = numbers(folder), write_spec(folder / "gone.yaml", source={"image_folder": {"path": "gone"}}, batch={"size": 1}, outputs=["label"])
    bad = write_spec(folder / "bad.yaml", source={"range": {}})
    assert f"{good}: \033[32mvalid\033[0m" in on_terminal("validate", good)
    assert f"{doubtful}: \033[33mwarning:\033[0m source.image_folder.path" in on_terminal("validate", doubtful)
    said = on_terminal("validate", bad)
    assert f"\033[31m{bad}:1:13:\033[0m source.range.size" in said and f"\033[31m{bad}:1:1:\033[0m batch.size" in said
    assert "\033" not in tool("validate", good) + on_terminal("validate", good, bad, NO_COLOR="1")
    assert "\033" not in on_terminal("foo", NO_COLOR="1") and "\033" not in on_terminal("foo", TERM="dumb")
    assert "\033" not in tool("foo", code=2) + tool("scan", "--help")


def test_the_doctor_shows_how_far_it_is(folder):
    said = on_terminal("doctor", numbers(folder), "--samples", 2000, "--sandbox", "none")
    assert re.search(r"run 1: \d+ of 2000 samples, .*; the whole spec", said), said
    assert "1 run done" in said
    assert "2000 samples in each run, made by a worker of one thread without a sandbox" in said


def test_differences_and_health_are_told_as_json(folder):
    with bulkhead.Loader(numbers(folder)) as loader:
        for name in ("a", "b"):
            (folder / f"{name}.json").write_text(json.dumps(loader.state_dict()))
            next(iter(loader))
        assert json.loads(tool("health", "--target", loader.target, "--json")) == {"target": loader.target, "serves": True}
    a, b = folder / "a.json", folder / "b.json"
    assert json.loads(tool("cursor", "diff", a, a, "--json")) == {"equal": True, "differences": []}

    def failed(*words):
        run = subprocess.run([BIN / "bulkhead", *map(str, words)], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        return run.stdout

    told = json.loads(failed("cursor", "diff", a, b, "--json"))
    assert not told["equal"] and told["differences"] == failed("cursor", "diff", a, b).splitlines()
    target = f"unix:{folder}/none"
    assert json.loads(failed("health", "--target", target, "--json")) == {"target": target, "serves": False}


def test_the_nearest_option_may_be_longer(folder):
    assert "unknown option '--output'; did you mean '--out'?" in tool("preview", numbers(folder), "--output", "a.png", code=2)


def cursor_of(spec, folder):
    """A file with the cursor of a spec's first batch."""
    with bulkhead.Loader(spec, workers=1) as loader:
        (folder / "cursor.json").write_text(json.dumps(loader.state_dict()))
    return folder / "cursor.json"


# As short as the benchmarks get.
BENCH_LEAK = ["bench", "leak", "--samples", 20, "--rounds", 1]
BENCH_RECOVERY = ["bench", "recovery", "--trials", 1]


def test_a_spec_is_an_argument_everywhere(folder):
    spec = numbers(folder)
    replay = ["replay", "--cursor", cursor_of(spec, folder)]
    for command in (["explain", "--samples", 1], ["order"], ["index"], ["bench", "run"], ["stream"], replay, BENCH_LEAK, BENCH_RECOVERY):
        assert json.loads(tool(*command, spec, "--json"))
    assert tool("order", spec) == tool("order", "--spec", spec)


def test_what_is_given_in_the_place_of_a_spec_is_named(folder, photos):
    for command in (["scan"], ["explain"], ["order"], ["index"], ["validate"], ["bench", "run"]):
        assert f"`bulkhead inspect {photos}` proposes one" in tool(*command, photos, code=2)


def test_a_path_with_spaces_wants_quotes(folder, photos):
    shutil.copytree(photos / "folder", folder / "my photos")
    said = tool("inspect", folder / "my", "photos", code=2)
    assert f"the path '{folder}/my photos' has spaces" in said
    assert "150 images" in tool("inspect", folder / "my photos")


def test_a_sheet_that_cannot_be_written_is_refused_before_any_work(folder, photos):
    spec = photos / "folder.yaml"
    assert f"write {folder}/sheet.png" in tool("preview", spec, "--out", folder / "sheet.jpg", code=2)
    assert f"there is no folder {folder}/none" in tool("preview", spec, "--out", folder / "none/sheet.png", code=2)
    assert f"there is no folder {folder}/none" in tool("order", spec, "--png", folder / "none/a.png", code=2)


def test_advice_names_the_option_that_the_reader_has(folder):
    stage = {"python": {"function": "code:f", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}}
    spec = numbers(folder, stages=[stage])
    for command in (["stream"], ["index"], ["scan"], ["bench", "run"]):
        said = tool(*command, spec, code=1)
        assert "add --python-path FOLDER" in said and "bulkheadd" not in said


def test_stages_of_ones_own_run_wherever_a_spec_does(folder, monkeypatch):
    (folder / "code.py").write_text("def f(index):\n    print('seen')\n    return index\n")
    stage = {"python": {"function": "code:f", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}}
    spec = numbers(folder, stages=[stage])
    python = ["--python", os.environ.get("BULKHEAD_TEST_PYTHON", sys.executable), "--python-path", folder]
    digests = {json.loads(tool("bench", "run", spec, "--json", *more, *python))["digest"] for more in ([], ["--in-process"])}
    assert len(digests) == 1
    monkeypatch.syspath_prepend(folder)
    replay = ["replay", "--cursor", cursor_of(spec, folder)]
    for command in (["stream"], ["index"], ["scan"], replay, BENCH_LEAK, BENCH_RECOVERY):
        tool(*command, spec, *python)


def test_a_service_of_ones_own_is_told_by_flags_and_leaves_its_log(folder):
    spec = write_spec(folder / "large.json", source={"range": {"size": 1000}}, batch={"size": 1 << 24}, epochs=1)
    own = ["--workers", "1", "--worker-quota", "64MiB", "--memory-budget", "300MiB", "--sandbox", "seccomp", "--worker-hang-timeout", "9"]
    said = tool("stream", spec, *own, code=1)
    assert "use a smaller batch.size or --worker-quota, or use a larger --memory-budget" in said
    [log] = (folder / "cache/bulkhead/logs").iterdir()
    assert said.endswith(f"; the log of the embedded service is {log}\n") and "listening on unix:" in log.read_text()
    said = tool("scan", spec, "--sandbox", "walls", code=1)
    assert "--sandbox walls: there is no part 'walls'" in said and "EmbeddedOptions" not in said
    for command in ("stream", "scan", "preview", "index", "replay", "bench run"):
        help = tool(*command.split(), "--help")
        assert all(flag in help for flag in own if flag.startswith("--")), command


def test_stream_names_what_it_substituted_and_warns(folder, photos):
    files = sorted((photos / "folder").rglob("*.jpg"))[:8]
    for number, path in enumerate(files):
        shutil.copy(path, folder / f"{number}.jpg")
    (folder / "3.jpg").write_bytes(b"no image")
    (folder / "train.txt").write_text("".join(f"{number}.jpg {number % 2}\n" for number in range(8)))
    spec = write_spec(folder / "spec.json", source={"image_list": {"path": "train.txt"}},
                      stages=["decode_image", {"resize": {"size": 8}}, {"normalize": {"mean": 0.5, "std": 0.5}}],
                      batch={"size": 4}, epochs=1, errors={"policy": "substitute", "max_fraction": 0.5})
    run = subprocess.run([BIN / "bulkhead", "stream", spec, "--json"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["substituted"] == 1
    assert "epoch 0, position 3 was substituted by " in run.stderr and "3.jpg" in run.stderr
    assert "warning: " in run.stderr and "stages[2].normalize" in run.stderr
