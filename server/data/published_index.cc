#include "server/data/published_index.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/spec/record_files.h"

namespace bulkhead {
namespace {

std::string ChecksumLine(Sha256& hash) { return absl::StrCat("sha256 ", hash.FinishHex(), "\n"); }

constexpr size_t kChecksumLineBytes = 7 + 64 + 1;

}  // namespace

bool CanBePublished(const internal::v1::ResolvedFile& file) {
  const auto url = ParseObjectUrl(file.object().url());
  return file.has_object() && !file.object().etag().empty() && url.ok() && url->is_bucket();
}

std::string PublishedUrl(absl::string_view url) { return absl::StrCat(url, kPublishedEnding); }

std::string ClaimOf(const v1::Source& source, const internal::v1::ResolvedFile& file) {
  const RecordFiles records = RecordFilesOf(source);
  return absl::StrCat("bulkhead index ", IndexHeader::kVersion, " ", records.kind, " ",
                      records.compression, " ", file.size_bytes(), " ", file.object().etag(), "\n");
}

uint64_t MostPublishedBytes(uint64_t object_bytes) {
  return std::min(kMostPublishedBytes, object_bytes / 2 + (uint64_t{1} << 20));
}

std::string ToPublished(absl::string_view claim, absl::string_view index) {
  Sha256 hash;
  hash.Update(index);
  return absl::StrCat(claim, ChecksumLine(hash), index);
}

absl::Status PublishedReader::CheckClaim() const {
  if (absl::StartsWith(head_, claim_)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "it is of another state of the object, or of another version of Bulkhead");
}

absl::Status PublishedReader::Add(absl::string_view bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view)> write) {
  const size_t of_head = std::min(bytes.size(), claim_.size() + kChecksumLineBytes - head_.size());
  if (of_head > 0) {
    head_.append(bytes.data(), of_head);
    bytes.remove_prefix(of_head);
    if (head_.size() >= claim_.size()) BULKHEAD_RETURN_IF_ERROR(CheckClaim());
  }
  if (bytes.empty()) return absl::OkStatus();
  hash_.Update(bytes);
  return write(bytes);
}

absl::Status PublishedReader::Finish() {
  BULKHEAD_RETURN_IF_ERROR(CheckClaim());
  if (head_.substr(claim_.size()) == ChecksumLine(hash_)) return absl::OkStatus();
  return absl::DataLossError("it is damaged");
}

}  // namespace bulkhead
