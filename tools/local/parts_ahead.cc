#include "tools/local/parts_ahead.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

// Of a batch: enough that a store's answers overlap, little for a disk.
constexpr uint64_t kMostBatchBytes = uint64_t{8} << 20;
constexpr uint64_t kMostBatchRecords = 256;
// How often a record is read again, for blocks that are removed, damaged, or arrived wrong.
constexpr int kMostAgain = 3;

using Trust = ObjectFetcher::Trust;

struct MissingPart {
  ObjectPart part;
  bool is_wrong = false;
};

// What NOT_FETCHED says is missing; absent: it is another status.
std::optional<MissingPart> MissingPartOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value() || info->reason != reason::kNotFetched) return std::nullopt;
  MissingPart missing;
  const auto number = [&](const char* name, uint64_t& value) {
    const auto found = info->metadata.find(name);
    return found != info->metadata.end() && absl::SimpleAtoi(found->second, &value);
  };
  const auto key = info->metadata.find("key");
  if (key == info->metadata.end() || !number("begin", missing.part.begin) ||
      !number("end", missing.part.end)) {
    return std::nullopt;
  }
  missing.part.key = key->second;
  missing.is_wrong = info->metadata.count("wrong") > 0;
  return missing;
}

}  // namespace

// The parts of consecutive records, on this host from Await until this goes.
class PartsAhead::Batch {
 public:
  Batch(const FoundObjects& objects, std::vector<ObjectPart> parts, Trust trust, uint64_t begin,
        uint64_t end)
      : objects_(objects), begin_(begin), end_(end), answer_(std::make_shared<Answer>()) {
    const std::vector<internal::v1::ObjectParts> merged = MergeParts(std::move(parts));
    if (merged.empty()) {
      answer_->here.Notify();
      return;
    }
    id_ = objects_.Fetch({merged.begin(), merged.end()}, trust,
                         [answer = answer_](const absl::Status& status) {
                           answer->status = status;
                           answer->here.Notify();
                         });
  }
  ~Batch() {
    if (id_.has_value()) objects_.Release(*id_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool Has(uint64_t index) const { return begin_ <= index && index < end_; }
  uint64_t end() const { return end_; }
  absl::Status Await() const {
    answer_->here.WaitForNotification();
    return answer_->status;
  }

 private:
  struct Answer {
    absl::Notification here;
    absl::Status status;
  };

  const FoundObjects& objects_;
  const uint64_t begin_;
  const uint64_t end_;
  const std::shared_ptr<Answer> answer_;
  std::optional<uint64_t> id_;  // of the request; absent: there is nothing to fetch
};

PartsAhead::PartsAhead(std::shared_ptr<const FoundObjects> objects, PartsOfFn parts_of, Trust trust)
    : objects_(std::move(objects)), parts_of_(std::move(parts_of)), trust_(trust) {}

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
  return std::make_unique<Batch>(*objects_, std::move(parts), trust_, begin, end);
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
  std::unique_ptr<Batch> again;  // until the record is read
  for (int tries = 0; tries < kMostAgain; ++tries) {
    const std::optional<MissingPart> missing = MissingPartOf(status);
    if (!missing.has_value()) return status;
    if (missing->is_wrong) fetched_again_.push_back(missing->part);
    again = std::make_unique<Batch>(*objects_, std::vector<ObjectPart>{missing->part},
                                    missing->is_wrong ? internal::v1::FetchParts::TRUST_NOTHING
                                                      : internal::v1::FetchParts::TRUST_CHECKSUMS,
                                    index, index + 1);
    BULKHEAD_RETURN_IF_ERROR(again->Await());
    status = read();
  }
  return status;
}

}  // namespace bulkhead::tools
