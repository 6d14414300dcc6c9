#ifndef BULKHEAD_SERVER_DATA_FILE_NAMES_H_
#define BULKHEAD_SERVER_DATA_FILE_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// The name of a file is what it is known by wherever something is hashed or kept: splits,
// fingerprints, quarantine. It is what the spec alone gives, so that it is the same behind every
// data root, from every folder and wherever the data are mounted. Part of the data format: it never
// changes (docs/decisions/0020-names-come-from-the-spec-alone.md).

// What a file at `path` is called that `pattern` of a spec found: of a pattern the path from its
// first component with a wildcard (`*`, `?`, `[`) on, of a literal path its last component.
// Without components that are empty or ".".
//
//   NameFromPattern("/data/*/x-?.rec", "/data/a/x-1.rec")  "a/x-1.rec"
//   NameFromPattern("../pos/x.rec", "/data/pos/x.rec")     "x.rec"
std::string NameFromPattern(absl::string_view pattern, absl::string_view path);

// A file that pattern number `pattern` of a spec found, called by NameFromPattern so far.
struct FoundFile {
  size_t pattern = 0;
  internal::v1::ResolvedFile file;
};

// Gives the files their names and the order in which their records count: by name. Where two have
// one name, the number of its pattern, from 0, comes before the name of every file ("1:x.rec"), and
// they are ordered by this number first.
void NameAndSort(std::vector<FoundFile>& files);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_FILE_NAMES_H_
