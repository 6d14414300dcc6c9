#include "server/source/selected_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/source/index/selection_index.h"

namespace bulkhead {
namespace {

// One file's share of the records.
struct Part {
  SelectionIndex selection;
  uint64_t first_record = 0;  // of the file, among all records
  uint64_t first_kept = 0;    // among all that are kept
};

class SelectedSource final : public Source {
 public:
  SelectedSource(std::unique_ptr<Source> all, std::vector<Part> parts, uint64_t skip,
                 uint64_t record_count)
      : all_(std::move(all)), parts_(std::move(parts)), skip_(skip), record_count_(record_count) {}

  uint64_t record_count() const override { return record_count_; }
  const std::vector<FeatureSignature>& features() const override { return all_->features(); }
  std::unique_ptr<ReadContext> NewContext() const override { return all_->NewContext(); }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t number, RecordOf(index));
    return all_->Read(number, context, record);
  }
  void Expect(uint64_t index, ReadContext& context) const override {
    if (const auto number = RecordOf(index); number.ok()) all_->Expect(*number, context);
  }
  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t number, RecordOf(index));
    return all_->Identity(number);
  }
  void NameRecord(uint64_t index, std::string& name) const override {
    name.clear();
    if (const auto number = RecordOf(index); number.ok()) all_->NameRecord(*number, name);
  }

 private:
  // Which of all records counts as `index`.
  absl::StatusOr<uint64_t> RecordOf(uint64_t index) const {
    const uint64_t kept = index + skip_;
    if (parts_.empty()) return kept;
    const Part& part = *(std::ranges::upper_bound(parts_, kept, {}, &Part::first_kept) - 1);
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t record, part.selection.Select(kept - part.first_kept));
    return part.first_record + record;
  }

  const std::unique_ptr<Source> all_;
  const std::vector<Part> parts_;  // empty: nothing but skip and take
  const uint64_t skip_;
  const uint64_t record_count_;
};

bool HasSelections(const internal::v1::ResolvedSource& resolved) {
  return std::any_of(resolved.files().begin(), resolved.files().end(),
                     [](const auto& file) { return !file.selection_path().empty(); });
}

}  // namespace

bool IsSelected(const internal::v1::ResolvedSource& resolved) {
  return resolved.skip() > 0 || resolved.has_take() || HasSelections(resolved);
}

absl::StatusOr<std::unique_ptr<Source>> SelectFrom(std::unique_ptr<Source> all, uint32_t kind,
                                                   const internal::v1::ResolvedSource& resolved) {
  std::vector<Part> parts;
  uint64_t kept = all->record_count();
  if (HasSelections(resolved)) {
    uint64_t records = 0;
    kept = 0;
    for (const internal::v1::ResolvedFile& file : resolved.files()) {
      BULKHEAD_ASSIGN_OR_RETURN(SelectionIndex selection, SelectionIndex::Open(file, kind));
      if (file.record_count() != 0 && file.record_count() != selection.indexed_count()) {
        return IndexDamaged(file.name(), "has a selection made for other records");
      }
      const uint64_t first_record = std::exchange(records, records + selection.indexed_count());
      const uint64_t first_kept = std::exchange(kept, kept + selection.kept_count());
      parts.push_back({std::move(selection), first_record, first_kept});
    }
    if (records != all->record_count()) {
      return IndexDamaged(resolved.files(0).name(), "has a selection made for another file");
    }
  }
  const uint64_t skip = std::min(resolved.skip(), kept);
  const uint64_t left = resolved.has_take() ? std::min(resolved.take(), kept - skip) : kept - skip;
  if (left == 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNoSamples,
                     "filter, split, skip and take leave no sample of the source");
  }
  return std::make_unique<SelectedSource>(std::move(all), std::move(parts), skip, left);
}

}  // namespace bulkhead
