#include "client/cpp/internal/fleet/cursors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/batch/layout.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMostQuarantined = 256;

}  // namespace

Cursors::Cursors(v1::Cursor cursor, uint64_t max_substitutions)
    : cursor_(std::move(cursor)),
      most_(max_substitutions),
      epoch_(cursor_.epoch()),
      counted_(cursor_.substitutions()) {}

std::set<std::string> Cursors::quarantined() const {
  return {cursor_.quarantined().begin(), cursor_.quarantined().end()};
}

absl::Status Cursors::Quarantine(const std::set<std::string>& records) {
  std::set<std::string> all = quarantined();
  all.insert(records.begin(), records.end());
  if (all.size() > kMostQuarantined) {
    return MakeClientError(
        absl::StatusCode::kResourceExhausted, "QUARANTINE_FULL",
        absl::StrCat("the replicas together have ", all.size(),
                     " records in quarantine, and a cursor holds ", kMostQuarantined));
  }
  cursor_.clear_quarantined();
  for (const std::string& record : all) cursor_.add_quarantined(record);
  return absl::OkStatus();
}

absl::Status Cursors::NoteCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files,
                               const std::string& target) {
  for (const v1::CodeFile& file : files) {
    for (const v1::CodeFile& known : cursor_.code()) {
      if (known.name() != file.name() || known.digest() == file.digest()) continue;
      return MakeClientError(
          absl::StatusCode::kFailedPrecondition, "CODE_CHANGED",
          absl::StrCat("the replica at ", target, " has loaded another content of ", file.name(),
                       " than the replicas before it; give all replicas the same code"),
          {{"file", file.name()}, {"target", target}});
    }
  }
  AddCode(files, &cursor_);
  return absl::OkStatus();
}

absl::StatusOr<v1::Cursor> Cursors::After(const v1::BatchHeader& header) {
  const uint64_t counted = (header.epoch() == epoch_ ? counted_ : 0) + header.substituted();
  if (counted > most_) {
    return MakeClientError(
        absl::StatusCode::kDataLoss, "TOO_MANY_SUBSTITUTIONS",
        absl::StrCat("epoch ", header.epoch(), " needed ", counted,
                     " substitutions on this rank, errors.max_fraction allows ", most_));
  }
  epoch_ = header.epoch();
  counted_ = counted;
  cursor_.set_epoch(header.next_epoch());
  cursor_.set_consumed(header.next_consumed());
  cursor_.set_substitutions(header.next_epoch() != header.epoch() ? 0 : counted_);
  return cursor_;
}

}  // namespace bulkhead::client_internal
