#include "server/source/tfrecord/example_reader.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/nearest_name.h"
#include "server/base/record_name.h"
#include "server/source/policy_advice.h"
#include "server/source/records/value_rules.h"
#include "server/source/tfrecord/step_list.h"
#include "server/source/tfrecord/tensor_reader.h"
#include "server/source/tfrecord/tfrecord_format.h"
#include "server/source/tfrecord/wire_reader.h"
#include "server/spec/image_lists.h"

namespace bulkhead {
namespace {

using Kind = FeatureList::Kind;

// Fields of a record.
constexpr uint32_t kFeatures = 1;  // of an Example; of a SequenceExample its context
constexpr uint32_t kLists = 2;     // of a SequenceExample

absl::Status Malformed(absl::string_view what) {
  return SampleError(reason::kMalformedExample, absl::StrCat("is not a tf.Example: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleReader>> ExampleReader::Create(
    const std::vector<FeatureSignature>& signatures, const FeatureMap& features) {
  auto reader = std::make_unique<ExampleReader>();
  for (const FeatureSignature& signature : signatures) {
    const std::string name = DeclarationOf(features, signature.name);
    const v1::Feature& feature = features.at(name);
    ExampleFeature declared;
    declared.signature = signature;
    declared.type = feature.type_case();
    declared.key = !feature.key().empty() ? feature.key() : feature.has_boxes() ? kBoxesKey : name;
    declared.is_length = name != signature.name && feature.bytes().length() == signature.name;
    declared.image = ImageNumber(name, signature.name).value_or(0);
    declared.images = declared.is_length ? 0 : ImagesIn(feature.bytes());
    declared.is_list = !feature.bytes().shape().empty() && declared.images == 0;
    declared.max_bytes = feature.bytes().max_bytes();
    declared.cast = feature.tensor().cast();
    declared.row_values = RowElements(signature);
    declared.axis = feature.sequence();
    if (!declared.axis.empty() && !signature.variable && declared.images == 0) {
      declared.row_values /= static_cast<uint64_t>(signature.shape[0]);
    }
    if (declared.is_list && !declared.is_length) declared.row_values /= declared.max_bytes;
    BULKHEAD_ASSIGN_OR_RETURN(declared.missing,
                              MissingValue::Create(signature, feature, declared.is_length));
    declared.found = reader->keys_;
    const auto look_for = [&](const std::string& key) {
      Places& places = declared.axis.empty() ? reader->features_ : reader->lists_;
      places[key].push_back(static_cast<int>(reader->keys_++));
    };
    if (feature.has_boxes()) {
      for (const absl::string_view side : kBoxSides) {
        look_for(absl::StrCat(declared.key, "/", side));
      }
    } else {
      look_for(declared.key);
    }
    const auto same_axis = [&](const ExampleFeature& other) { return other.axis == declared.axis; };
    declared.first_of_axis = static_cast<size_t>(
        std::find_if(reader->declared_.begin(), reader->declared_.end(), same_axis) -
        reader->declared_.begin());
    reader->declared_.push_back(std::move(declared));
  }
  return reader;
}

namespace {

constexpr size_t kMostNamedKeys = 10;
constexpr size_t kMostLookedAtKeys = 256;
constexpr size_t kMostKeyBytes = 64;

// The names of a record's features, or of its lists of steps, sorted; at most kMostLookedAtKeys,
// without the longest.
std::vector<std::string> KeysOf(absl::string_view record, uint32_t field) {
  std::set<std::string> keys;
  for (WireReader example(record); example.Next();) {
    if (!example.Is(field, WireReader::kBytes)) continue;
    for (WireReader features(example.bytes());
         keys.size() < kMostLookedAtKeys && features.Next();) {
      if (!features.Is(1, WireReader::kBytes)) continue;
      for (WireReader entry(features.bytes()); entry.Next();) {
        const bool is_key =
            entry.Is(1, WireReader::kBytes) && entry.bytes().size() <= kMostKeyBytes;
        if (is_key) keys.insert(Printable(entry.bytes()));
      }
    }
  }
  return {keys.begin(), keys.end()};
}

bool Holds(absl::string_view record, uint32_t field, const std::string& key) {
  const std::vector<std::string> keys = KeysOf(record, field);
  return std::binary_search(keys.begin(), keys.end(), key);
}

// What a record that lacks `key` has, for people: "did you mean `image`? ".
std::string HeldInstead(absl::string_view record, uint32_t field, const std::string& key) {
  if (field == kFeatures && Holds(record, kLists, key)) {
    return "but its feature_lists do: give the feature a `sequence`; else ";
  }
  if (field == kLists && Holds(record, kFeatures, key)) {
    return "but its context does: leave `sequence` out; else ";
  }
  std::vector<std::string> keys = KeysOf(record, field);
  if (keys.empty()) {
    return absl::StrCat("it holds no ", field == kLists ? "list of steps; " : "feature; ");
  }
  const std::string near = NearestName(key, keys);
  if (!near.empty()) return absl::StrCat("did you mean `", near, "`? Else ");
  const bool more = keys.size() > kMostNamedKeys;
  keys.resize(std::min(keys.size(), kMostNamedKeys));
  return absl::StrCat("it holds ", absl::StrJoin(keys, ", "), more ? ", …" : "", "; ");
}

absl::Status SetMissing(const ExampleFeature& declared, absl::string_view record,
                        FeatureValue& value) {
  if (!declared.missing.is_allowed()) {
    const absl::string_view advice = declared.missing.advice();
    return SampleError(
        reason::kMissingFeature,
        absl::StrCat("the record does not hold it; ",
                     HeldInstead(record, declared.axis.empty() ? kFeatures : kLists, declared.key),
                     "correct its `key`", advice.empty() ? "" : ", or give it ", advice));
  }
  value = declared.missing.Get();
  return absl::OkStatus();
}

absl::Status ReadBytes(const ExampleFeature& declared, const FeatureList& list, ByteBuffer& buffer,
                       FeatureValue& value) {
  if (declared.images > 0 && list.count != declared.images) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", list.count,
                                    " images, the spec's shape needs ", declared.images));
  }
  if (declared.images == 0 && list.count != 1) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", list.count,
                                    " byte strings, not one; a list of them has a `shape`"));
  }
  const absl::string_view bytes = list.chunks[declared.image];
  BULKHEAD_RETURN_IF_ERROR(CheckStringBound(bytes.size(), declared.max_bytes));
  value = FeatureValue{ValueBytes(bytes), bytes.size(), 1};
  if (declared.is_length) StoreLittle<uint64_t>(ReserveValue(buffer, 8, 1, value), bytes.size());
  return absl::OkStatus();
}

absl::Status ReadStrings(const ExampleFeature& declared, const FeatureList& list,
                         ByteBuffer& buffer, FeatureValue& value) {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows,
                            CountRows(list.count, declared.row_values, declared.signature));
  const uint64_t width = declared.max_bytes;
  for (const absl::string_view bytes : list.chunks) {
    BULKHEAD_RETURN_IF_ERROR(CheckStringBound(bytes.size(), width));
  }
  char* const out =
      ReserveValue(buffer, list.count * (declared.is_length ? 8 : width), rows, value);
  declared.is_length ? WriteLengths(list, out) : WriteStrings(list, width, out);
  return absl::OkStatus();
}

absl::Status ReadTensorFeature(const ExampleFeature& declared, const FeatureList& list,
                               ByteBuffer& buffer, FeatureValue& value) {
  if (list.count != 1) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", list.count, " byte strings, not one"));
  }
  TensorValue tensor;
  BULKHEAD_RETURN_IF_ERROR(
      ReadTensor(list.chunks[0], {&declared.signature, declared.cast}, buffer, tensor));
  value = FeatureValue{ValueBytes(tensor.bytes), tensor.bytes.size(), tensor.count};
  return absl::OkStatus();
}

absl::Status ReadNumbers(const ExampleFeature& declared, const FeatureList& list,
                         ByteBuffer& buffer, FeatureValue& value) {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows,
                            CountRows(list.count, declared.row_values, declared.signature));
  const uint64_t size = list.count * ElementBytes(declared.signature.dtype);
  if (list.kind == Kind::kFloat && list.chunks.size() == 1) {
    value = {ValueBytes(list.chunks[0]), size, static_cast<int64_t>(rows)};
  } else {
    WriteNumbers(list, ReserveValue(buffer, size, rows, value));
  }
  return absl::OkStatus();
}

absl::Status ReadFeature(const ExampleFeature& declared, const FeatureList& list,
                         ByteBuffer& buffer, FeatureValue& value) {
  BULKHEAD_RETURN_IF_ERROR(CheckKind(list, KindOfType(declared.type)));
  if (declared.type == v1::Feature::kTensor) {
    return ReadTensorFeature(declared, list, buffer, value);
  }
  if (declared.type != v1::Feature::kBytes) return ReadNumbers(declared, list, buffer, value);
  return declared.is_list ? ReadStrings(declared, list, buffer, value)
                          : ReadBytes(declared, list, buffer, value);
}

absl::Status ReadBoxes(const ExampleFeature& declared, ExampleScratch& scratch, ByteBuffer& buffer,
                       FeatureValue& value) {
  constexpr size_t kSides = std::size(kBoxSides);
  std::string lengths;
  for (size_t side = 0; side < kSides; ++side) {
    FeatureList& list = scratch.sides[side];
    if (!ReadFeatureList(scratch.found[declared.found + side], list)) {
      return SampleError(reason::kMalformedExample,
                         absl::StrCat("its list `", kBoxSides[side], "` is damaged"));
    }
    if (list.kind != Kind::kFloat && list.kind != Kind::kNone) {
      return SampleError(reason::kWrongDType,
                         absl::StrCat("the record's `", kBoxSides[side], "` is ",
                                      KindName(list.kind), ", boxes are read from float lists"));
    }
    absl::StrAppend(&lengths, side == 0 ? "" : ", ", kBoxSides[side], " ", list.count);
  }
  const uint64_t rows = scratch.sides[0].count;
  for (const FeatureList& list : scratch.sides) {
    if (list.count == rows) continue;
    return SampleError(reason::kWrongShape,
                       absl::StrCat("its lists have unequal lengths: ", lengths,
                                    "; each box has one value in each"));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckRowBound(rows, declared.signature));
  char* const boxes = ReserveValue(buffer, rows * kSides * sizeof(float), rows, value);
  for (size_t side = 0; side < kSides; ++side) {
    char* out = boxes + side * sizeof(float);
    for (const absl::string_view chunk : scratch.sides[side].chunks) {
      for (size_t at = 0; at < chunk.size(); at += sizeof(float)) {
        std::memcpy(out, chunk.data() + at, sizeof(float));
        out += kSides * sizeof(float);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDeclared(const ExampleFeature& declared, size_t i, absl::string_view record,
                          ExampleScratch& scratch, FeatureValue& value) {
  if (declared.type == v1::Feature::kBoxes) {
    return ReadBoxes(declared, scratch, scratch.buffers[i], value);
  }
  const auto& messages = scratch.found[declared.found];
  if (!declared.axis.empty()) {
    scratch.steps[i] = declared.images > 0           ? declared.images
                       : declared.signature.variable ? 0
                                                     : declared.signature.shape[0];
    if (messages.empty()) return SetMissing(declared, record, value);
    if (declared.images > 0) {
      BULKHEAD_ASSIGN_OR_RETURN(
          const absl::string_view bytes,
          ReadStepString(messages, declared.images, declared.image, scratch.list));
      value = FeatureValue{ValueBytes(bytes), bytes.size(), 1};
      return absl::OkStatus();
    }
    return ReadSteps(messages,
                     {declared.signature, KindOfType(declared.type), declared.row_values,
                      declared.max_bytes, declared.is_length},
                     scratch.list, scratch.buffers[i], value, scratch.steps[i]);
  }
  if (!ReadFeatureList(messages, scratch.list)) {
    return SampleError(reason::kMalformedExample, "its list of values is damaged");
  }
  if (scratch.list.kind == Kind::kNone) return SetMissing(declared, record, value);
  return ReadFeature(declared, scratch.list, scratch.buffers[i], value);
}

}  // namespace

// Features and FeatureLists are maps of the same form.
absl::Status ExampleReader::FindInMap(absl::string_view message, const Places& places,
                                      ExampleScratch& scratch) {
  WireReader features(message);
  while (features.Next()) {
    if (!features.Is(1, WireReader::kBytes)) continue;
    absl::string_view key;
    absl::InlinedVector<absl::string_view, 1> values;
    WireReader entry(features.bytes());
    while (entry.Next()) {
      if (entry.Is(1, WireReader::kBytes)) key = entry.bytes();
      if (entry.Is(2, WireReader::kBytes)) values.push_back(entry.bytes());
    }
    if (entry.failed()) return Malformed("a feature's bytes are damaged");
    const auto declared = places.find(key);
    if (declared == places.end()) continue;
    for (const int i : declared->second) scratch.found[i] = values;
  }
  return features.failed() ? Malformed("its features are damaged") : absl::OkStatus();
}

absl::Status ExampleReader::Find(absl::string_view record, ExampleScratch& scratch) const {
  scratch.found.resize(keys_);
  scratch.buffers.resize(declared_.size());
  scratch.steps.resize(declared_.size());
  for (auto& messages : scratch.found) messages.clear();
  WireReader example(record);
  while (example.Next()) {
    if (example.Is(kFeatures, WireReader::kBytes)) {
      BULKHEAD_RETURN_IF_ERROR(FindInMap(example.bytes(), features_, scratch));
    } else if (example.Is(kLists, WireReader::kBytes) && !lists_.empty()) {
      BULKHEAD_RETURN_IF_ERROR(FindInMap(example.bytes(), lists_, scratch));
    }
  }
  return example.failed() ? Malformed("its bytes are not a protobuf message") : absl::OkStatus();
}

absl::Status ExampleReader::ReadRecord(absl::string_view record, ExampleScratch& scratch,
                                       std::vector<FeatureValue>& values) const {
  BULKHEAD_RETURN_IF_ERROR(Find(record, scratch));
  values.resize(declared_.size());
  for (size_t i = 0; i < declared_.size(); ++i) {
    const absl::Status status = ReadDeclared(declared_[i], i, record, scratch, values[i]);
    if (status.ok()) continue;
    return Annotate(status, absl::StrCat("feature `", declared_[i].key, "`"),
                    {{"feature", declared_[i].signature.name}});
  }
  return lists_.empty() ? absl::OkStatus() : CheckAxes(scratch);
}

absl::Status ExampleReader::CheckAxes(const ExampleScratch& scratch) const {
  for (size_t i = 0; i < declared_.size(); ++i) {
    const ExampleFeature& declared = declared_[i];
    const ExampleFeature& first = declared_[declared.first_of_axis];
    if (declared.axis.empty() || scratch.steps[i] == scratch.steps[declared.first_of_axis])
      continue;
    return SampleError(
        reason::kWrongShape,
        absl::StrCat("feature `", declared.key, "`: the record holds ", scratch.steps[i],
                     " steps, but ", scratch.steps[declared.first_of_axis], " of `", first.key,
                     "`, which has the same axis `", declared.axis,
                     "`; lists that may differ have a `sequence` of their own"),
        {{"feature", declared.signature.name}});
  }
  return absl::OkStatus();
}

absl::Status ExampleReader::Read(absl::string_view bytes, Scratch& scratch,
                                 std::vector<FeatureValue>& values) const {
  BULKHEAD_ASSIGN_OR_RETURN(const absl::string_view data, DataOfFrame(bytes));
  return ReadRecord(data, static_cast<ExampleScratch&>(scratch), values);
}

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

}  // namespace bulkhead
