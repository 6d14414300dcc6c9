#include "server/sampler/order.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/base/random.h"
#include "server/sampler/block_order.h"
#include "server/sampler/interleave_table.h"
#include "server/sampler/keyed_permutation.h"
#include "server/sampler/variant_cache.h"

namespace bulkhead {
namespace {

// Fields that have a default of true.
template <typename Order>
bool Reshuffles(const Order& order) {
  return !order.has_reshuffle() || order.reshuffle();
}

// The order of a source's files in each epoch: the source's own, or shuffled. Immutable;
// thread-safe.
class FileOrder {
 public:
  template <typename Order>
  FileOrder(const Order& order, uint64_t seed, absl::Span<const uint64_t> file_records)
      : seed_(seed), shuffled_(order.shuffle_files()), varies_(shuffled_ && Reshuffles(order)) {
    uint64_t first_record = 0;
    for (const uint64_t count : file_records) {
      files_.push_back({first_record, count});
      first_record += count;
    }
  }

  // Epochs of equal variants have equal orders.
  uint64_t VariantOf(uint64_t epoch) const { return varies_ ? epoch : 0; }
  // All files, in the order of a variant. O(files).
  std::vector<FileRecords> Files(uint64_t variant) const {
    std::vector<FileRecords> files = files_;
    if (!shuffled_) return files;
    // Fisher and Yates: every order of the files is equally likely, also of very few.
    SampleRandom random(seed_, variant, 0, StableHash("order/files"));
    for (size_t left = files.size(); left > 1; --left) {
      std::swap(files[left - 1], files[random.NextBelow(left)]);
    }
    return files;
  }

 private:
  const uint64_t seed_;
  const bool shuffled_;
  const bool varies_;               // with the epoch
  std::vector<FileRecords> files_;  // in the source's order
};

// Looks a position up in a table of the files of its epoch.
template <typename Table>
class TableOrder final : public SampleOrder {
 public:
  using MakeTable = std::function<std::unique_ptr<Table>(std::vector<FileRecords>)>;
  TableOrder(FileOrder files, MakeTable make) : files_(std::move(files)), make_(std::move(make)) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const auto table = tables_.Get(
        files_.VariantOf(epoch), [this](uint64_t variant) { return make_(files_.Files(variant)); });
    return table->RecordAt(position);
  }

 private:
  const FileOrder files_;
  const MakeTable make_;
  mutable VariantCache<Table> tables_;
};

// `sequential` in the source's own order. O(1).
class SourceOrder final : public SampleOrder {
 public:
  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override { return position; }
};

// `sequential` in a shuffled order: file after file. O(log files).
class FileTable {
 public:
  explicit FileTable(std::vector<FileRecords> files) : files_(std::move(files)) {
    uint64_t end = 0;
    for (const FileRecords& file : files_) ends_.push_back(end += file.count);
  }
  uint64_t RecordAt(uint64_t position) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), position);
    const FileRecords& file = files_[end - ends_.begin()];
    return file.first_record + file.count - (*end - position);
  }

 private:
  const std::vector<FileRecords> files_;
  std::vector<uint64_t> ends_;  // the positions behind the files
};

// `global`: a uniform shuffle of the whole epoch, O(1); with `reshuffle` another one every epoch.
class GlobalOrder final : public SampleOrder {
 public:
  GlobalOrder(uint64_t seed, uint64_t record_count, bool reshuffle)
      : seed_(MixBits(seed, StableHash("order/global"))),
        record_count_(record_count),
        reshuffle_(reshuffle) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const uint64_t key = MixBits(seed_, reshuffle_ ? epoch : 0);
    return KeyedPermutation(key, record_count_).At(position);
  }

 private:
  const uint64_t seed_;
  const uint64_t record_count_;
  const bool reshuffle_;
};

absl::Status Missing(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, std::string(what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleOrder>> MakeOrder(const v1::Order& order, uint64_t seed,
                                                       absl::Span<const uint64_t> file_records) {
  const uint64_t record_count =
      std::accumulate(file_records.begin(), file_records.end(), uint64_t{0});
  if (record_count == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                     "the source has no samples, so there is nothing to put in order");
  }
  switch (order.order_case()) {
    case v1::Order::kSequential:
      if (!order.sequential().shuffle_files()) return std::make_unique<SourceOrder>();
      return std::make_unique<TableOrder<FileTable>>(
          FileOrder(order.sequential(), seed, file_records), [](std::vector<FileRecords> files) {
            return std::make_unique<FileTable>(std::move(files));
          });
    case v1::Order::kGlobal:
      return std::make_unique<GlobalOrder>(seed, record_count, Reshuffles(order.global()));
    case v1::Order::kInterleave: {
      const uint64_t cycle_length = order.interleave().cycle_length();
      const uint64_t block_length = order.interleave().block_length();
      if (cycle_length == 0 || block_length == 0) {
        return Missing("order.interleave: cycle_length and block_length must be at least 1");
      }
      // The order of tf.data's Dataset.interleave, O(log files).
      return std::make_unique<TableOrder<InterleaveTable>>(
          FileOrder(order.interleave(), seed, file_records),
          [=](const std::vector<FileRecords>& files) {
            return std::make_unique<InterleaveTable>(files, cycle_length, block_length);
          });
    }
    case v1::Order::kBlock:
      if (order.block().block_size() == 0 || order.block().window() == 0) {
        return Missing("order.block: block_size and window must be at least 1");
      }
      return MakeBlockOrder(seed, record_count, order.block().block_size(), order.block().window(),
                            Reshuffles(order.block()));
    case v1::Order::ORDER_NOT_SET:
      break;
  }
  return Missing("order is not set");
}

}  // namespace bulkhead
