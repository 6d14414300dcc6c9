#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// Names of files with user code, as used by service and workers: relative to the folders of
// --python-path and --native-path, so that they do not depend on where these folders are. A plain
// value.
class CodeFolders {
 public:
  CodeFolders() = default;
  // Absolute, links resolved.
  explicit CodeFolders(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // The name of the file at `path`, which is absolute: relative to the first folder that contains
  // it or, if an earlier folder has another file of this name, the path with links resolved. Empty
  // for a file in no folder, for installed packages (below site-packages or dist-packages), which
  // are not edited, and for our own libraries.
  std::string NameOf(const std::string& path) const;
  // The path of the file with a name; empty if there is none, or if it leads out of the folders.
  // UNAVAILABLE when the storage does not tell: STORAGE_STALLED, FILE_UNREADABLE.
  absl::StatusOr<std::string> PathOf(const std::string& name) const;
  // The current content of the file with that name; without a digest if there is none. Errors as
  // those of PathOf.
  absl::StatusOr<v1::CodeFile> Read(const std::string& name) const;

 private:
  std::vector<std::string> folders_;
};

// The most user files that one pipeline may load, and the longest name of one in bytes.
inline constexpr size_t kMostCodeFiles = 4096;
inline constexpr size_t kMostCodeNameBytes = 1024;

// Whether CodeFolders can give this name: a path without empty components, "." and "..", and
// without control characters. Names from workers and cursors are untrusted.
bool IsCodeName(absl::string_view name);

// CodeFile::digest of a SHA-256 in hex.
std::string CodeDigest(absl::string_view sha256_hex);
// Whether it can be such a digest, or that of a file which cannot be read.
bool IsCodeDigest(absl::string_view digest);
// CodeFile::digest of a file; empty if it cannot be read.
std::string DigestOfCode(const std::string& path);

// The bytes fingerprint of a pipeline, from that of its spec and its code, which is sorted by name;
// the spec's own if there is no code. Files that are loaded later do not count, since they are not
// known in advance.
std::string FingerprintWithCode(const std::string& bytes_fingerprint,
                                const std::vector<v1::CodeFile>& code);

// CODE_CHANGED (FAILED_PRECONDITION): a worker loads a file with other content than an earlier
// worker.
absl::Status CodeChanged(const std::string& name, const std::string& before,
                         const std::string& now);

}  // namespace bulkhead
