#include "server/source/tfrecord/example_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/source/policy_advice.h"
#include "server/source/tfrecord/example_reader.h"
#include "server/source/tfrecord/tfrecord_format.h"

namespace bulkhead {
namespace {

struct ExampleFormatScratch final : RecordFormat::Scratch {
  ExampleScratch example;
};

class ExampleFormat final : public RecordFormat {
 public:
  explicit ExampleFormat(ExampleReader reader) : reader_(std::move(reader)) {}

  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<ExampleFormatScratch>();
  }
  absl::Status Read(absl::string_view bytes, Scratch& scratch,
                    std::vector<FeatureValue>& values) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const absl::string_view data, DataOfFrame(bytes));
    return reader_.Read(data, static_cast<ExampleFormatScratch&>(scratch).example, values);
  }

 private:
  const ExampleReader reader_;
};

}  // namespace

absl::StatusOr<absl::string_view> DataOfFrame(absl::string_view bytes) {
  if (bytes.size() < kFrameBytes || !FrameHeaderIsValid(bytes.data())) {
    return SampleError(
        reason::kCorruptRecord,
        absl::StrCat("the record's length does not match its checksum; restore the file",
                     kPassOverDamaged));
  }
  const uint64_t length = bytes.size() - kFrameBytes;
  const uint64_t stated = LoadLittle<uint64_t>(bytes.data());
  if (stated != length) {
    return SampleError(reason::kCorruptRecord, absl::StrCat("the record says ", stated, " bytes, ",
                                                            length, " when it was indexed"));
  }
  const absl::string_view data = bytes.substr(kFrameHeaderBytes, length);
  const char* const footer = data.data() + data.size();
  if (LoadLittle<uint32_t>(footer) != MaskCrc32c(Crc32c(data))) {
    return SampleError(
        reason::kCorruptRecord,
        absl::StrCat("the record's data does not match its checksum; restore the file",
                     kPassOverDamaged));
  }
  return data;
}

absl::StatusOr<std::unique_ptr<const RecordFormat>> NewExampleFormat(
    const std::vector<FeatureSignature>& signatures,
    const google::protobuf::Map<std::string, v1::Feature>& features) {
  BULKHEAD_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::Create(signatures, features));
  return std::make_unique<ExampleFormat>(std::move(reader));
}

}  // namespace bulkhead
