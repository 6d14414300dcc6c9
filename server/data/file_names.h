#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// Names of files, used wherever something is hashed or stored: splits, fingerprints, quarantine. A
// name comes from the spec alone, so it does not depend on data roots, folders or mounts. Part of
// the data format: it never changes (docs/decisions/0020-names-come-from-the-spec-alone.md).

// The name of the file at `path` that a spec's `pattern` found. For a pattern: the path from its
// first component with a wildcard (`*`, `?`, `[`) on; for a literal path: its last component. Empty
// and "." components are dropped.
//
//   NameFromPattern("/data/*/x-?.rec", "/data/a/x-1.rec")  "a/x-1.rec"
//   NameFromPattern("../pos/x.rec", "/data/pos/x.rec")     "x.rec"
std::string NameFromPattern(absl::string_view pattern, absl::string_view path);

// A file found by pattern number `pattern` of a spec, named by NameFromPattern.
struct FoundFile {
  size_t pattern = 0;
  internal::v1::ResolvedFile file;
};

// Gives files their final names and orders them, and thereby their records, by name. If two have
// the same name, every name gets its pattern's number, from 0, in front ("1:x.rec"), and this
// number is sorted first.
void NameAndSort(std::vector<FoundFile>& files);

}  // namespace bulkhead
