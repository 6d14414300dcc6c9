#!/bin/bash
# Runs the compiler command that is its arguments. Where that parses headers ahead, it writes beside the result, in
# *.gch.sum, a digest of the files that were parsed and of the command. ccache takes it for the result's content
# (CCACHE_PCH_EXTSUM): GCC writes other bytes each time, so that nothing that uses them was ever found again.
set -euo pipefail
"$@"
result='' dependencies=''
for ((i = 1; i < $#; ++i)); do
  case ${!i} in
    -o) next=$((i + 1)) result=${!next} ;;
    -MF) next=$((i + 1)) dependencies=${!next} ;;
  esac
done
if [[ $result != *.gch ]]; then exit 0; fi
rm -f "$result.sum"
# Files whose names make cannot tell have no digest, and ccache reads the result itself, as it would without this script.
# "result: \", then a file and " \" on each line.
if files=$(sed -e '1s/^[^:]*://' -e 's/ \\$//' "$dependencies" | xargs cat 2>/dev/null | sha256sum); then
  printf '%s\n' "$files" "$@" >"$result.sum"
fi
