#!/bin/bash
# How big the house is: lines of code by room, classes with many methods, folders with many files, the words of the
# README and the changelog, and the files that a stage is spread over.
#
#   scripts/house.sh           the figures, with a mark at each that is over its limit; the exit status stays 0
#   scripts/house.sh --check   the same, and exit status 1 when one is over its limit
#
# Counts what git knows, without tests where it says so. Needs cloc and universal-ctags (scripts/setup.sh --dev).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

readonly MOST_METHODS=30 MOST_FILES=40 MOST_WORDS=700
# Classes that may have more methods, and how many. Loader: what its users may call and ask is 36 already, and half of it
# are properties, each of which tells one fact of the stream; all that changes its state is in the other half.
readonly -A MORE_METHODS=([_loader.Loader]=45)
# The commit that adds a stage, told by its subject, and what it may add by hand: files of the product, of tests and of goldens.
readonly STAGE_COMMIT='^stages: elastic is added' MOST_STAGE_FILES=(4 1 1)
over=0

# by_hand - of the files that are named on standard input those that no script wrote: such a file says so at its beginning.
by_hand() {
  local files
  files=$(grep -v '\.binpb$' | while read -r file; do [[ -f $file ]] && echo "$file"; done)
  grep -vxF -f <(xargs -d '\n' awk 'FNR > 4 { nextfile } /Written by .*update_/ { print FILENAME }' <<<"$files") <<<"$files"
}

# row FIGURE LIMIT WORDS - prints one figure, and marks it when it is over its limit.
row() {
  local mark=" "
  if (($1 > $2)); then
    mark="!"
    over=$((over + 1))
  fi
  printf '%s %7d  %s\n' "$mark" "$1" "$3"
}

# methods - "COUNT CLASS" of every class and struct of the product, public and private; a method that is declared in
# one place and defined in another counts once, and of overloads those with as many parameters as another. What a class
# inherits counts as its own where the base is written by hand, concrete, in the same folder and has no other heir: such a
# base is a part of the class.
methods() {
  {
    git ls-files -- '*.h' '*.cc' ':!tests/*' |
      ctags -L - -f - --langmap=C++:.h.cc --kinds-C++=csfp --fields=ksSi '--fields-C++=+{properties}'
    git ls-files -- 'client/python/bulkhead/*.py' | by_hand |
      ctags -L - -f - --kinds-Python=cfm --fields=ksi
  } 2>/dev/null | awk -F '\t' '
    $1 ~ /^(__anon|ABSL_)/ { next }  # a lambda, an annotation
    {
      scope = ""; parameters = 0; bases = ""
      for (i = 4; i <= NF; ++i) {
        if ($i ~ /^(class|struct|namespace):/) { scope = $i; sub(/^[a-z]*:/, "", scope) }
        if ($i ~ /^signature:/ && $i !~ /^signature:\(\)/) { parameters = 1 + gsub(/,/, ",", $i) }
        if ($i ~ /^inherits:/) { bases = substr($i, 10) }
      }
      gsub(/__anon[0-9a-f]*(::)?/, "", scope)
      sub(/::$/, "", scope)
      folder = $2
      sub(/\/[^\/]*$/, "", folder)
      separator = "::"
      if ($2 ~ /\.py$/) {
        module = $2
        gsub(/^client\/python\/bulkhead\/|\.py$/, "", module)
        gsub(/\//, ".", module)
        scope = scope == "" ? module : module "." scope
        separator = "."
      }
    }
    $4 ~ /^[cs]$/ {
      class = scope == "" ? $1 : scope separator $1
      at[folder, $1] = class
      place[class] = folder
      inherits[class] = bases
      n = split(bases, names, / *, */)
      for (i = 1; i <= n; ++i) ++heirs[last_name(names[i])]
      if (bases ~ /(^|[ .,])(Protocol|ABC)/) abstract[class]
      next
    }
    {
      if (/\tproperties:[a-z,]*pure/) abstract[scope]
      if (!seen[scope, $1, parameters]++) own[scope] = own[scope] SUBSEP $1 "/" parameters
    }
    # "Adapter" of "bulkhead::Adapter<T>" and "adapters.Adapter".
    function last_name(name) {
      gsub(/<.*|.*[.:]/, "", name)
      return name
    }
    # Adds to `all` the methods of a class, and those of its bases that it has not itself.
    function gather(class, all,    list, names, i, n) {
      n = split(own[class], list, SUBSEP)
      for (i = 2; i <= n; ++i) all[list[i]]
      n = split(inherits[class], names, / *, */)
      for (i = 1; i <= n; ++i) {
        base = at[place[class], last_name(names[i])]
        if (base != "" && base != class && !(base in abstract) && heirs[last_name(names[i])] == 1) gather(base, all)
      }
    }
    END {
      for (class in place) {
        split("", all)
        gather(class, all)
        count = 0
        for (method in all) ++count
        if (count) print count, class
      }
    }' | sort -k1,1nr -k2
}

echo "lines of code, without comments, blank lines and generated files"
for room in server client/cpp client/python/bulkhead tools include proto tests client/python/tests bench scripts; do
  lines=$(git ls-files -- "$room" | grep -vE '\.(json|txt|md)$' | by_hand |
    cloc --quiet --csv --list-file=- 2>/dev/null | awk -F, '$2 == "SUM" { print $5 }')
  printf '  %7d  %s\n' "${lines:-0}" "$room"
done

echo
echo "methods of the largest classes (at most $MOST_METHODS)"
while read -r count class; do
  row "$count" "${MORE_METHODS[$class]:-$MOST_METHODS}" "$class${MORE_METHODS[$class]:+ (at most ${MORE_METHODS[$class]})}"
done < <(methods | head -n 10)

echo
echo "files of the largest folders, without those of folders in them (at most $MOST_FILES)"
while read -r count folder; do row "$count" "$MOST_FILES" "$folder"; done < <(
  git ls-files -- server client tools include proto bench scripts tests ':!tests/golden/data' |
    xargs -d '\n' -n 1 dirname | sort | uniq -c | sort -k1,1nr | head -n 8
)

echo
echo "words"
for page in README.md CHANGELOG.md; do row "$(wc -w <"$page")" "$MOST_WORDS" "$page (at most $MOST_WORDS)"; done
printf '  %7d  %s\n' "$(git ls-files -z -- 'docs/*.md' | xargs -0 cat | wc -w)" "docs"

echo
echo "files that a stage adds or changes by hand"
commit=$(git log -1 --format=%h --grep="$STAGE_COMMIT")
if [[ -z $commit ]]; then
  echo "            not to be seen: this history has no commit '${STAGE_COMMIT#^}'"
else
  git log -1 --format='            %s' "$commit"
  files=$(git show --format= --name-only "$commit" | by_hand)
  sorts=(product tests goldens)
  patterns=('^(server|proto|include|client|tools)/' '^tests/.*_test\.cc$' '^tests/.*/data/')
  for i in "${!sorts[@]}"; do
    found=$(grep -E "${patterns[i]}" <<<"$files" || true)
    row "$(grep -c . <<<"$found")" "${MOST_STAGE_FILES[i]}" "${sorts[i]} (at most ${MOST_STAGE_FILES[i]}): ${found//$'\n'/ }"
  done
fi

if [[ ${1:-} == --check ]] && ((over)); then exit 1; fi
