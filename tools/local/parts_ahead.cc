#include "tools/local/parts_ahead.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

// Of a batch: enough that a store's answers overlap, little for a disk.
constexpr uint64_t kMostBatchBytes = uint64_t{8} << 20;
constexpr uint64_t kMostBatchRecords = 256;
// How often a part is fetched again, for blocks that are removed, damaged, or arrived wrong.
constexpr int kMostAgain = 3;

using Trust = ObjectFetcher::Trust;

}  // namespace

// The parts of consecutive records, on this host from Await until this goes.
class PartsAhead::Batch {
 public:
  Batch(const PartsFetcher& fetcher, std::vector<ObjectPart> parts, Trust trust, uint64_t begin,
        uint64_t end)
      : begin_(begin), end_(end) {
    const std::vector<internal::v1::ObjectParts> merged = MergeParts(std::move(parts));
    if (!merged.empty()) request_ = fetcher.Fetch({merged.begin(), merged.end()}, trust);
  }

  bool Has(uint64_t index) const { return begin_ <= index && index < end_; }
  uint64_t end() const { return end_; }
  absl::Status Await() const { return request_ == nullptr ? absl::OkStatus() : request_->Await(); }

 private:
  const uint64_t begin_;
  const uint64_t end_;
  std::unique_ptr<PartsFetcher::Request> request_;  // null: there is nothing to fetch
};

PartsAhead::PartsAhead(std::shared_ptr<const PartsFetcher> fetcher, PartsOfFn parts_of, Trust trust)
    : fetcher_(std::move(fetcher)), parts_of_(std::move(parts_of)), trust_(trust) {}

PartsAhead::~PartsAhead() = default;

void PartsAhead::WillRead(uint64_t first, uint64_t end) {
  end_ = end;
  next_.reset();
  now_ = first < end ? BatchFrom(first) : nullptr;
}

std::unique_ptr<PartsAhead::Batch> PartsAhead::BatchFrom(uint64_t begin) const {
  std::vector<ObjectPart> parts;
  uint64_t end = begin;
  for (uint64_t bytes = 0; end - begin < kMostBatchRecords && bytes < kMostBatchBytes;) {
    const size_t before = parts.size();
    parts_of_(end, parts);
    for (size_t i = before; i < parts.size(); ++i) {
      bytes += parts[i].bytes > 0 ? parts[i].bytes : parts[i].end - parts[i].begin;
    }
    if (++end >= end_) break;
  }
  return std::make_unique<Batch>(*fetcher_, std::move(parts), trust_, begin, end);
}

absl::Status PartsAhead::Await(uint64_t index) {
  if (now_ == nullptr || !now_->Has(index)) {
    const bool is_next = next_ != nullptr && next_->Has(index);
    now_ = is_next ? std::move(next_) : BatchFrom(index);
    next_.reset();
  }
  if (next_ == nullptr && now_->end() < end_) next_ = BatchFrom(now_->end());
  return now_->Await();
}

absl::Status PartsAhead::Read(uint64_t index, absl::FunctionRef<absl::Status()> read) {
  fetched_again_.clear();
  BULKHEAD_RETURN_IF_ERROR(Await(index));
  absl::Status status = read();
  std::vector<std::unique_ptr<Batch>> again;  // until the record is read
  for (std::map<std::pair<std::string, uint64_t>, int> tries;;) {
    const std::optional<MissingPart> missing = MissingPartOf(status);
    if (!missing.has_value()) return status;
    if (++tries[{missing->part.key, missing->part.begin}] > kMostAgain) return status;
    if (missing->is_wrong) fetched_again_.push_back(missing->part);
    again.push_back(std::make_unique<Batch>(*fetcher_, std::vector<ObjectPart>{missing->part},
                                            missing->is_wrong
                                                ? internal::v1::FetchParts::TRUST_NOTHING
                                                : internal::v1::FetchParts::TRUST_CHECKSUMS,
                                            index, index + 1));
    BULKHEAD_RETURN_IF_ERROR(again.back()->Await());
    status = read();
  }
}

}  // namespace bulkhead::tools
