#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/checksum.h"

namespace bulkhead {

// A record index that lies beside its object, as the object URL.bulkhead-index, so that nobody has
// to read the whole object for it. `bulkhead index --publish` makes them.
//
//   bulkhead index VERSION KIND COMPRESSION SIZE ETAG   the claim: what it is an index of
//   sha256 HEX                                          of the rest
//   the index, as it lies in an IndexFolder
//
// Whoever can write it could write the object, too: it is believed as the object is, and read by
// workers.

inline constexpr absl::string_view kPublishedEnding = ".bulkhead-index";
// An index of about 8 million records. bulkhead-fetch, which has 512 MiB, holds it three times
// while it writes it.
inline constexpr uint64_t kMostPublishedBytes = uint64_t{64} << 20;

// Whether an index may lie beside `file`: it is an object of s3 or gs that has an ETag.
bool CanBePublished(const internal::v1::ResolvedFile& file);

// Where the index of the object at `url` lies.
std::string PublishedUrl(absl::string_view url);

// The first line of the index of `file`, an object of `source`.
std::string ClaimOf(const v1::Source& source, const internal::v1::ResolvedFile& file);

// The most that is published, and read, for an object of that size: beyond half of it, and 1 MiB,
// it saves too little.
uint64_t MostPublishedBytes(uint64_t object_bytes);

// What is to be published for an index.
std::string ToPublished(absl::string_view claim, absl::string_view index);

// Takes a published index apart while its bytes come, so that it need not be in memory as a whole:
//
//   PublishedReader reader(claim);
//   RETURN_IF_ERROR(reader.Add(bytes, write));  // again and again
//   RETURN_IF_ERROR(reader.Finish());
class PublishedReader {
 public:
  // `claim`: the one that it must make.
  explicit PublishedReader(std::string claim) : claim_(std::move(claim)) {}

  // The next bytes; calls `write` with those of the index among them. FAILED_PRECONDITION if it
  // makes another claim; errors of `write`.
  absl::Status Add(absl::string_view bytes,
                   absl::FunctionRef<absl::Status(absl::string_view)> write);
  // All bytes have come. FAILED_PRECONDITION as Add's, DATA_LOSS if it is damaged.
  absl::Status Finish();

 private:
  absl::Status CheckClaim() const;

  const std::string claim_;
  std::string head_;  // what has come of both lines
  Sha256 hash_;
};

}  // namespace bulkhead
