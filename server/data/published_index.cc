#include "server/data/published_index.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/spec/record_files.h"

namespace bulkhead {
namespace {

std::string ChecksumLine(absl::string_view index) {
  Sha256 hash;
  hash.Update(index);
  return absl::StrCat("sha256 ", hash.FinishHex(), "\n");
}

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
  return absl::StrCat(claim, ChecksumLine(index), index);
}

absl::StatusOr<std::string> FromPublished(absl::string_view claim, std::string published) {
  if (!absl::StartsWith(published, claim)) {
    return absl::FailedPreconditionError(
        "it is of another state of the object, or of another version of Bulkhead");
  }
  const size_t checksum_bytes = ChecksumLine("").size();
  const absl::string_view rest = absl::string_view(published).substr(claim.size());
  if (rest.size() < checksum_bytes ||
      rest.substr(0, checksum_bytes) != ChecksumLine(rest.substr(checksum_bytes))) {
    return absl::DataLossError("it is damaged");
  }
  published.erase(0, claim.size() + checksum_bytes);
  return published;
}

}  // namespace bulkhead
