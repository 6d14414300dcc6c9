"""docs/first-hour.md, and a reader who follows it in a shell."""

import pathlib
import re
import subprocess

import cv2
import numpy as np

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "first-hour.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs between two runs: times, processes, pipelines, memory, and how far the workers are.
VARIES = re.compile(r"\d\d:\d\d:\d\d|pid \d+|\b[0-9a-f]{8}/\d+|[\d.]+(?=[KMG]iB| s$| samples| delivered)")


def commands(block):
    """(command, the lines that it prints) of a console."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def masked(text):
    return VARIES.sub("~", text)


def pattern(printed):
    """A regular expression of what the page shows; there … stands for a part of a line, or for any lines."""
    return "".join(r"(.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*")
                   for line in masked(printed).splitlines(keepends=True))


class Shell:
    """One bash, in which the reader's commands run one after the other."""

    END = "=== the command ended with"

    def __init__(self, folder, environment):
        self._bash = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        """What it prints, and its exit status."""
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null\necho '{self.END}' $?\n")
        self._bash.stdin.flush()
        said = ""
        for line in self._bash.stdout:
            before, ended, status = line.partition(self.END)
            said += before
            if ended:
                return said, int(status)
        raise AssertionError(f"the shell ended after {command!r}: {said}")

    def folder(self):
        return pathlib.Path(self.run("pwd")[0].strip())

    def close(self):
        self._bash.stdin.close()
        self._bash.wait()
        self._bash.stdout.close()


def follow(shell, first="## Install"):
    """Writes its files, and runs its commands in order, from the heading `first` on; each prints what stands below it."""
    page = PAGE.read_text()
    for language, text in BLOCK.findall(page[page.index(first):]):
        if language == "console":
            for command, printed in commands(text):
                said, status = shell.run(command)
                as_shown = re.fullmatch(pattern(printed), masked(said)) is not None
                assert as_shown and status == 0, f"$ {command} ended with {status}:\n{said}\nbut the page has\n{printed}"
        else:
            assert language in ("python", "yaml"), "a block is a console, or a file whose name is its first line"
            name = re.match(r"# ([\w.]+)\n", text)
            (shell.folder() / name[1]).write_text(text)
    drawn, shown = (cv2.imread(str(path)) for path in (shell.folder() / "sheet.png", DOCS / "first-hour.png"))
    same = np.array_equal(drawn, shown)
    assert same, "docs/first-hour.png is not the page's sheet.png"
