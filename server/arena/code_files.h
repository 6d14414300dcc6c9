#ifndef BULKHEAD_SERVER_ARENA_CODE_FILES_H_
#define BULKHEAD_SERVER_ARENA_CODE_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// Names of the files that hold code of the user's, as service and workers give them: below the
// folders of --python-path and --native-path, so that they are the same wherever the code lies.
// A plain value.
class CodeFolders {
 public:
  CodeFolders() = default;
  // Absolute, links resolved.
  explicit CodeFolders(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // The name of the file at `path`, which is absolute: relative to the first folder that holds it;
  // where a folder before that one has another file of this name, the path, links resolved. Empty
  // for what lies in none, and for installed packages (below site-packages or dist-packages), which
  // are not edited.
  std::string NameOf(const std::string& path) const;
  // The file that a name means; empty if there is none, or if it leads out of the folders.
  std::string PathOf(const std::string& name) const;
  // What the file of that name holds now; without a digest when there is none.
  v1::CodeFile Read(const std::string& name) const;

 private:
  std::vector<std::string> folders_;
};

// Files of the user's that one pipeline may load, and bytes of the name of one.
inline constexpr size_t kMostCodeFiles = 4096;
inline constexpr size_t kMostCodeNameBytes = 1024;

// Whether CodeFolders gives such names: a path without empty components, "." and "..", and without
// control characters. Workers and cursors may say anything.
bool IsCodeName(absl::string_view name);

// CodeFile::digest of a SHA-256 in hex.
std::string CodeDigest(absl::string_view sha256_hex);
// Whether it can be one, or that of a file which cannot be read.
bool IsCodeDigest(absl::string_view digest);
// CodeFile::digest of a file; empty when it cannot be read.
std::string DigestOfCode(const std::string& path);

// What makes of a spec's bytes fingerprint that of the pipeline with this code, sorted by name;
// the same when there is none. What was loaded later does not count: which files those are is
// known only when they are.
std::string FingerprintWithCode(const std::string& bytes_fingerprint,
                                const std::vector<v1::CodeFile>& code);

// CODE_CHANGED (FAILED_PRECONDITION): what a worker loads is not what was loaded before it.
absl::Status CodeChanged(const std::string& name, const std::string& before,
                         const std::string& now);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_CODE_FILES_H_
