#include "server/pipeline/record_reader.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/value_store.h"
#include "server/pipeline/stage_observer.h"
#include "server/source/file.h"

namespace bulkhead {

// The last part that does not begin behind `record`.
size_t RecordReader::NumberOf(uint64_t record) const {
  const auto behind = std::upper_bound(
      parts_.begin() + 1, parts_.end(), record,
      [](uint64_t wanted, const PipelinePart& part) { return wanted < part.first_record; });
  return behind - parts_.begin() - 1;
}

void RecordReader::SetIdentity(uint64_t record, std::string& identity) const {
  const PipelinePart& part = PartOf(record);
  part.source->NameRecord(record - part.first_record, identity);
  identity = CanonicalRecordName(std::move(identity));
}

void RecordReader::Expect(uint64_t record, StagedContext& own) const {
  const size_t number = NumberOf(record);
  const PipelinePart& part = parts_[number];
  if (own.observer != nullptr) {
    SetIdentity(record, own.identity);
    own.Name(own.identity);
  }
  own.Enter(StageObserver::kSource);
  ReadContext& context = Prepare(number, own);
  context.wanted = own.wanted;
  part.source->Expect(record - part.first_record, context);
}

ReadContext& RecordReader::Prepare(size_t number, StagedContext& own) const {
  const PipelinePart& part = parts_[number];
  ReadContext& context = *own.read[number];
  // What a cache stage keeps is found by the bytes.
  const bool later = own.stores.coefficients != nullptr && !part.cached.has_value();
  context.read_later = later ? &part.plan.read_later : nullptr;
  context.known = &own.decoder.known_files();
  return context;
}

absl::Status RecordReader::Read(uint64_t record, StagedContext& own) const {
  const size_t number = NumberOf(record);
  const PipelinePart& part = parts_[number];
  Name(record, own);
  own.Enter(StageObserver::kSource);
  own.record.list = {};
  own.record.files.clear();
  ReadContext& context = Prepare(number, own);
  context.fetched_again = own.judges_bytes ? &own.fetched_again : nullptr;
  BULKHEAD_RETURN_IF_ERROR(part.source->Read(record - part.first_record, context, own.record));
  SetStores(own);
  return absl::OkStatus();
}

void RecordReader::GoBackTo(uint64_t record, StagedContext& own) const {
  Name(record, own);
  SetStores(own);
}

void RecordReader::Name(uint64_t record, StagedContext& own) const {
  if (own.observer == nullptr && !own.stores.any()) return;
  SetIdentity(record, own.identity);
  own.Name(own.identity);
}

void RecordReader::SetStores(StagedContext& own) {
  if (!own.stores.any()) return;
  static_assert(std::has_unique_object_representations_v<FileIdentity>);
  // Files first, so that no name can look like them.
  own.key_bytes.clear();
  const uint64_t count = own.record.files.size();
  own.key_bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  own.key_bytes.append(reinterpret_cast<const char*>(own.record.files.data()),
                       count * sizeof(FileIdentity));
  own.key_bytes.append(own.identity);
  own.record_key = KeyOf(own.key_bytes);
  using Making = JpegDecoder::Making;
  const Making making = own.keeps_all     ? Making::kAll
                        : own.reads_again ? Making::kInPassing
                                          : Making::kNone;
  own.decoder.SetStores({own.stores.seek_entries, own.stores.coefficients, own.record_key, making});
}

absl::Status RecordReader::ReadAgain(const absl::Status& produced, uint64_t record,
                                     StagedContext& own) const {
  const auto info = GetErrorInfo(produced);
  const bool is_damage = info.has_value() && (info->reason == reason::kCorruptImage ||
                                              info->reason == reason::kTruncatedImage ||
                                              info->reason == reason::kUnsupportedImage);
  if (!own.judges_bytes || !is_damage) return absl::OkStatus();
  const size_t number = NumberOf(record);
  const PipelinePart& part = parts_[number];
  ReadContext& context = Prepare(number, own);
  std::vector<ObjectPart> lies_in;
  context.wanted = &lies_in;
  part.source->Expect(record - part.first_record, context);
  context.wanted = nullptr;
  for (const ObjectPart& bytes : lies_in) {
    const auto is_it = [&](const ObjectPart& again) {
      return again.key == bytes.key && again.begin == bytes.begin && again.end == bytes.end;
    };
    if (std::none_of(own.fetched_again.begin(), own.fetched_again.end(), is_it)) {
      return NotFetched(bytes.key, bytes.begin, bytes.end, /*wrong=*/true);
    }
  }
  return absl::OkStatus();
}

absl::Status RecordReader::NameFailure(const absl::Status& read, const absl::Status& produced,
                                       uint64_t record, const SampleKey& key,
                                       StagedContext& own) const {
  if (read.ok()) BULKHEAD_RETURN_IF_ERROR(ReadAgain(produced, record, own));
  const std::string position = absl::StrCat(key.position);
  std::string identity;
  SetIdentity(record, identity);
  std::map<std::string, std::string> metadata = RecordMetadata(identity);
  metadata["position"] = position;
  if (!own.record.list.empty()) {
    metadata["list"] = std::string(own.record.list);
    metadata["line"] = absl::StrCat(own.record.line);
  }
  if (!read.ok()) {
    return Annotate(read, absl::StrCat("position ", position), std::move(metadata));
  }
  return Annotate(produced, absl::StrCat("position ", position, ": ", own.record.origin),
                  std::move(metadata));
}

}  // namespace bulkhead
