#!/bin/bash
# What CI runs: format, words that do not belong in the tree, links, charts and the size of the house, then scripts/test.sh (the layering test is in it).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

"$ROOT/scripts/setup.sh" --dev

echo "check: format"
git ls-files -z -- '*.h' '*.cc' | xargs -0 clang-format --dry-run -Werror

echo "check: shell scripts"
git ls-files -z -- '*.sh' .ci/run | xargs -0 shellcheck -x -P SCRIPTDIR

echo "check: words"
# Built from halves, so that this file does not hold them itself.
words="TO""DO|FIX""ME|\bX""XX\b|Copy""right 20|/wo""rk/"
if git grep -nIE "$words" -- . ':!LICENSE'; then
  echo "check: these words do not belong in committed files" >&2
  exit 1
fi

echo "check: links of the documentation"
"$ROOT/scripts/check_links.py"

echo "check: the chart of the benchmarks"
"$ROOT/bench/chart.py" --check

echo "check: the size of the house"
"$ROOT/scripts/house.sh" --check

"$ROOT/scripts/test.sh" "$@"
