#include "server/arena/code_files.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kDigestDigits = 16;

// Our own libraries are not the user's code either, also in a clone that is one of their folders.
bool IsInstalled(absl::string_view path) {
  return absl::StrContains(path, "/site-packages/") || absl::StrContains(path, "/dist-packages/") ||
         absl::StartsWith(path.substr(path.rfind('/') + 1), "libbulkhead_");
}

// OK when the storage has told that no such file can be read. Otherwise it is not known what is
// there, and to say "none" would be to say that the code was changed.
absl::Status UnlessAbsent(const absl::Status& status, const std::string& name) {
  if (absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) {
    return absl::OkStatus();
  }
  if (GetErrorInfo(status).has_value()) return status;
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(Printable(name), ": cannot be read: ", status.message()),
                   {{"file", name}});
}

}  // namespace

std::string CodeFolders::NameOf(const std::string& path) const {
  const auto real = RealPath(path);
  if (!real.ok() || IsInstalled(path) || IsInstalled(*real)) return "";
  // As it is called first: behind a link a folder may have another name tomorrow.
  for (const std::string& called : {path, *real}) {
    for (const std::string& folder : folders_) {
      if (called == folder || !IsBeneath(called, folder)) continue;
      std::string name(called.substr(folder.size() + (folder == "/" ? 0 : 1)));
      if (PathOf(name).value_or("") == *real) return name;
      if (!PathOf(*real).value_or("").empty()) return *real;
    }
  }
  return "";
}

absl::StatusOr<std::string> CodeFolders::PathOf(const std::string& name) const {
  const bool absolute = absl::StartsWith(name, "/");
  for (const std::string& folder : folders_) {
    const auto path = RealPath(absolute ? name : absl::StrCat(folder, "/", name));
    if (!path.ok()) {
      BULKHEAD_RETURN_IF_ERROR(UnlessAbsent(path.status(), name));
      continue;
    }
    const bool inside = std::ranges::any_of(
        folders_, [&](const auto& allowed) { return IsBeneath(*path, allowed); });
    if (inside) return *path;
  }
  return "";
}

absl::StatusOr<v1::CodeFile> CodeFolders::Read(const std::string& name) const {
  v1::CodeFile file;
  file.set_name(name);
  BULKHEAD_ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  if (path.empty()) return file;
  const auto digest = Sha256OfFile(path);
  if (!digest.ok()) {
    BULKHEAD_RETURN_IF_ERROR(UnlessAbsent(digest.status(), name));
    return file;
  }
  file.set_digest(CodeDigest(*digest));
  return file;
}

std::string CodeDigest(absl::string_view sha256_hex) {
  return std::string(sha256_hex.substr(0, kDigestDigits));
}

bool IsCodeDigest(absl::string_view digest) {
  return digest.size() <= kDigestDigits && std::ranges::all_of(digest, [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

std::string DigestOfCode(const std::string& path) {
  const auto digest = Sha256OfFile(path);
  return digest.ok() ? CodeDigest(*digest) : "";
}

std::string FingerprintWithCode(const std::string& bytes_fingerprint,
                                const std::vector<v1::CodeFile>& code) {
  std::string counted;
  for (const v1::CodeFile& file : code) {
    if (file.later()) continue;
    absl::StrAppend(&counted, file.name().size(), ":", file.name(), " ", file.digest(), "\n");
  }
  if (counted.empty()) return bytes_fingerprint;
  Sha256 sha;
  sha.Update(absl::StrCat("bulkhead code 1\n", bytes_fingerprint, "\n", counted));
  return sha.FinishHex();
}

bool IsCodeName(absl::string_view name) {
  if (name.empty() || name.size() > kMostCodeNameBytes || !IsPrintable(name)) return false;
  absl::ConsumePrefix(&name, "/");
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  return std::ranges::none_of(
      parts, [](absl::string_view part) { return part.empty() || part == "." || part == ".."; });
}

absl::Status CodeChanged(const std::string& name, const std::string& before,
                         const std::string& now) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kCodeChanged,
      absl::StrCat(Printable(name), " was changed while the stream ran: one worker runs ",
                   Printable(before), ", another would run ", Printable(now),
                   "; open the stream again, and from a cursor with allow_changed_bytes"),
      {{"file", name}});
}

}  // namespace bulkhead
