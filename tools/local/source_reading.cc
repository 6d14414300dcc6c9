#include "tools/local/source_reading.h"

#include <utility>
#include <vector>

namespace bulkhead::tools {

SourceReading::SourceReading(const Source& source, std::shared_ptr<const FoundObjects> objects)
    : source_(source), context_(source.NewContext()) {
  if (objects == nullptr || objects->empty()) return;
  ahead_.emplace(FetchHere(std::move(objects)),
                 [this](uint64_t index, std::vector<ObjectPart>& parts) {
                   context_->wanted = &parts;
                   source_.Expect(index, *context_);
                   context_->wanted = nullptr;
                 });
  context_->fetched_again = &ahead_->fetched_again();
}

void SourceReading::WillRead(uint64_t first, uint64_t end) {
  if (ahead_.has_value()) ahead_->WillRead(first, end);
}

absl::Status SourceReading::Read(uint64_t index, Record& record) {
  if (!ahead_.has_value()) return source_.Read(index, *context_, record);
  return ahead_->Read(index, [&] { return source_.Read(index, *context_, record); });
}

}  // namespace bulkhead::tools
