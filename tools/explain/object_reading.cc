#include "tools/explain/object_reading.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/blocks/object_blocks.h"
#include "server/fetch/block_fetcher.h"
#include "server/sampler/order.h"
#include "server/source/source.h"

namespace bulkhead::tools {
namespace {

// Of an epoch, as much is looked at as a service reads ahead, and no more samples than these.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr uint64_t kMostSamples = 100'000;
constexpr uint64_t kOtherBlock = 1000;

uint64_t BlocksOf(uint64_t bytes) {
  return (bytes + ObjectBlocks::kBlockBytes - 1) / ObjectBlocks::kBlockBytes;
}

// The records of all sources of a spec, with continuous numbers.
class Records {
 public:
  static absl::StatusOr<Records> Open(const LocalData& data) {
    Records records;
    BULKHEAD_ASSIGN_OR_RETURN(records.sources_, data.OpenPlain());
    for (const auto& source : records.sources_) records.contexts_.push_back(source->NewContext());
    return records;
  }

  // Adds the parts that the record lies in.
  void AddParts(uint64_t record, std::vector<ObjectPart>& parts) {
    size_t number = 0;
    while (record >= sources_[number]->record_count()) record -= sources_[number++]->record_count();
    contexts_[number]->wanted = &parts;
    sources_[number]->Expect(record, *contexts_[number]);
  }

 private:
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<ReadContext>> contexts_;
};

std::map<std::string, uint64_t> SizesOf(const internal::v1::ResolvedSource& resolved) {
  std::map<std::string, uint64_t> sizes;
  for (const auto& file : resolved.files()) sizes[file.object().key()] = file.size_bytes();
  for (const auto& mixed : resolved.mixed()) sizes.merge(SizesOf(mixed));
  return sizes;
}

ExplainedReading ReadingOf(const SampleOrder& order, uint64_t batch_size, const LocalData& data,
                           Records& records) {
  ExplainedReading reading;
  BlockCount count(SizesOf(data.found().resolved));
  const uint64_t samples = std::min(data.samples_per_epoch(), kMostSamples);
  uint64_t looked = 0;
  while (looked < samples && count.bytes() < kMostBytes) {
    std::vector<ObjectPart> parts;
    for (uint64_t i = 0; i < batch_size && looked < samples; ++i) {
      records.AddParts(order.RecordAt(0, looked++), parts);
    }
    for (const ObjectPart& part : parts) {
      reading.record_bytes += part.bytes > 0 ? part.bytes : part.end - part.begin;
    }
    count.Add(std::move(parts));
  }
  looked = std::max<uint64_t>(1, looked);
  reading.record_bytes /= looked;
  reading.sample_bytes = count.bytes() / looked;
  reading.sample_requests = static_cast<double>(count.requests()) / static_cast<double>(looked);
  return reading;
}

struct NamedOrder {
  std::string name;
  v1::Order order;  // normalized
};

std::string NameOf(const v1::Order& order) {
  switch (order.order_case()) {
    case v1::Order::kGlobal:
      return "global";
    case v1::Order::kBlock:
      return absl::StrCat("block {block_size: ", order.block().block_size(), "}");
    case v1::Order::kInterleave:
      return absl::StrCat("interleave {cycle_length: ", order.interleave().cycle_length(), "}");
    default:
      return "sequential";
  }
}

// What one could write instead.
std::vector<v1::Order> OtherOrders() {
  std::vector<v1::Order> orders(3);
  orders[0].mutable_global()->set_reshuffle(true);
  orders[1].mutable_block()->set_block_size(kOtherBlock);
  orders[1].mutable_block()->set_window(16);
  orders[1].mutable_block()->set_reshuffle(true);
  orders[2].mutable_sequential();
  return orders;
}

}  // namespace

void BlockCount::Add(std::vector<ObjectPart> batch) {
  const auto of_table = [](const ObjectPart& part) { return part.bytes > 0; };
  for (const ObjectPart& part : batch) {
    if (of_table(part)) ReadObjects(part);
  }
  std::erase_if(batch, of_table);
  std::ranges::sort(batch, {},
                    [](const ObjectPart& part) { return std::tie(part.key, part.begin); });
  for (size_t i = 0; i < batch.size();) {
    const ObjectPart& first = batch[i];
    uint64_t end = first.end;
    for (++i; i < batch.size() && batch[i].key == first.key && batch[i].begin <= end; ++i) {
      end = std::max(end, batch[i].end);
    }
    Read(first.key, first.begin / ObjectBlocks::kBlockBytes, BlocksOf(end));
  }
}

void BlockCount::ReadObjects(const ObjectPart& part) {
  absl::flat_hash_set<uint64_t>& here = blocks_[part.key];
  uint64_t missing = 0;
  for (uint64_t object = part.begin; object < part.end; ++object) {
    missing += here.insert(object).second ? 1 : 0;
  }
  bytes_ += part.bytes * missing / (part.end - part.begin);
  requests_ += missing;
}

void BlockCount::Read(const std::string& key, uint64_t begin, uint64_t end) {
  constexpr uint64_t kGapBlocks = BlockFetcher::kGapBytes / ObjectBlocks::kBlockBytes;
  absl::flat_hash_set<uint64_t>& here = blocks_[key];
  const auto found = object_bytes_.find(key);
  const uint64_t size =
      found == object_bytes_.end() ? end * ObjectBlocks::kBlockBytes : found->second;
  const auto ask = [&](uint64_t from, uint64_t to) {
    const uint64_t bytes =
        std::min(size, to * ObjectBlocks::kBlockBytes) - from * ObjectBlocks::kBlockBytes;
    bytes_ += bytes;
    requests_ += (bytes + BlockFetcher::kReadBytes - 1) / BlockFetcher::kReadBytes;
  };
  std::optional<uint64_t> from;  // the first one of a read
  uint64_t to = 0;
  for (uint64_t block = begin; block < end; ++block) {
    if (!here.insert(block).second) continue;
    if (from.has_value() && block > to + kGapBlocks) {
      ask(*from, to);
      from.reset();
    }
    if (!from.has_value()) from = block;
    to = block + 1;
  }
  if (from.has_value()) ask(*from, to);
}

absl::StatusOr<std::vector<ExplainedReading>> ExplainReading(const v1::PipelineSpec& spec,
                                                             const LocalData& data) {
  BULKHEAD_ASSIGN_OR_RETURN(Records records, Records::Open(data));
  const uint64_t batch_size = std::max<uint64_t>(1, spec.batch().size());
  const bool is_mixture = spec.source().has_mixture();
  std::vector<ExplainedReading> readings;
  readings.push_back(ReadingOf(data.order(), batch_size, data, records));
  readings.back().order = is_mixture ? "those of the mixture" : NameOf(spec.order());
  readings.back().is_of_spec = true;
  if (is_mixture) return readings;
  for (const v1::Order& other : OtherOrders()) {
    if (other.order_case() == spec.order().order_case()) continue;
    BULKHEAD_ASSIGN_OR_RETURN(const auto order, MakeOrder(other, spec.seed(), data.file_records()));
    readings.push_back(ReadingOf(*order, batch_size, data, records));
    readings.back().order = NameOf(other);
  }
  return readings;
}

}  // namespace bulkhead::tools
