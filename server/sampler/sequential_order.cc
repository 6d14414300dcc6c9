#include "server/sampler/sequential_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/sampler/variant_cache.h"

namespace bulkhead {
namespace {

class SourceOrder final : public SampleOrder {
 public:
  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override { return position; }
};

class ShuffledFiles final : public SampleOrder {
 public:
  explicit ShuffledFiles(FileOrder files) : files_(std::move(files)) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const auto table = tables_.Get(files_.VariantOf(epoch), [this](uint64_t variant) {
      return std::make_unique<Table>(files_.Files(variant));
    });
    return table->RecordAt(position);
  }

 private:
  class Table {
   public:
    explicit Table(std::vector<FileRecords> files) : files_(std::move(files)) {
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

  const FileOrder files_;
  mutable VariantCache<Table> tables_;
};

}  // namespace

std::unique_ptr<SampleOrder> MakeSequentialOrder(FileOrder files) {
  if (!files.shuffled()) return std::make_unique<SourceOrder>();
  return std::make_unique<ShuffledFiles>(std::move(files));
}

}  // namespace bulkhead
