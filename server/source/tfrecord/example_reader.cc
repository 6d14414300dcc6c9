#include "server/source/tfrecord/example_reader.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/nearest_name.h"
#include "server/base/record_name.h"
#include "server/source/records/value_rules.h"
#include "server/source/tfrecord/tensor_reader.h"
#include "server/source/tfrecord/wire_reader.h"

namespace bulkhead {
namespace {

using Kind = FeatureList::Kind;

absl::Status Malformed(absl::string_view what) {
  return SampleError(reason::kMalformedExample, absl::StrCat("is not a tf.Example: ", what));
}

Kind ExpectedKind(v1::Feature::TypeCase type) {
  switch (type) {
    case v1::Feature::kInt64:
      return Kind::kInt64;
    case v1::Feature::kFloat:
      return Kind::kFloat;
    default:
      return Kind::kBytes;
  }
}

}  // namespace

absl::StatusOr<ExampleReader> ExampleReader::Create(
    const std::vector<FeatureSignature>& signatures,
    const google::protobuf::Map<std::string, v1::Feature>& features) {
  ExampleReader reader;
  for (const FeatureSignature& signature : signatures) {
    const std::string name = DeclarationOf(features, signature.name);
    const v1::Feature& feature = features.at(name);
    Declared declared;
    declared.signature = signature;
    declared.type = feature.type_case();
    declared.key = !feature.key().empty() ? feature.key() : feature.has_boxes() ? kBoxesKey : name;
    declared.is_list = !feature.bytes().shape().empty();
    declared.is_length = name != signature.name;
    declared.max_bytes = feature.bytes().max_bytes();
    declared.cast = feature.tensor().cast();
    declared.row_values = RowElements(signature);
    if (declared.is_list && !declared.is_length) declared.row_values /= declared.max_bytes;
    BULKHEAD_ASSIGN_OR_RETURN(declared.missing,
                              MissingValue::Create(signature, feature, declared.is_length));
    declared.found = reader.keys_;
    const auto look_for = [&](const std::string& key) {
      reader.by_key_[key].push_back(static_cast<int>(reader.keys_++));
    };
    if (feature.has_boxes()) {
      for (const absl::string_view side : kBoxSides) {
        look_for(absl::StrCat(declared.key, "/", side));
      }
    } else {
      look_for(declared.key);
    }
    reader.declared_.push_back(std::move(declared));
  }
  return reader;
}

namespace {

constexpr size_t kMostNamedKeys = 10;
constexpr size_t kMostLookedAtKeys = 256;
constexpr size_t kMostKeyBytes = 64;

// The names of a record's features, sorted; at most kMostLookedAtKeys, without the longest.
std::vector<std::string> KeysOf(absl::string_view record) {
  std::set<std::string> keys;
  for (WireReader example(record); example.Next();) {
    if (!example.Is(1, WireReader::kBytes)) continue;
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

// What a record that lacks `key` has, for people: "did you mean `image`? ".
std::string HeldInstead(absl::string_view record, const std::string& key) {
  std::vector<std::string> keys = KeysOf(record);
  if (keys.empty()) return "it holds no feature; ";
  const std::string near = NearestName(key, keys);
  if (!near.empty()) return absl::StrCat("did you mean `", near, "`? Else ");
  const bool more = keys.size() > kMostNamedKeys;
  keys.resize(std::min(keys.size(), kMostNamedKeys));
  return absl::StrCat("it holds ", absl::StrJoin(keys, ", "), more ? ", …" : "", "; ");
}

}  // namespace

absl::Status ExampleReader::FindInFeatures(absl::string_view message,
                                           ExampleScratch& scratch) const {
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
    const auto declared = by_key_.find(key);
    if (declared == by_key_.end()) continue;
    for (const int i : declared->second) scratch.found[i] = values;
  }
  return features.failed() ? Malformed("its features are damaged") : absl::OkStatus();
}

absl::Status ExampleReader::Find(absl::string_view record, ExampleScratch& scratch) const {
  scratch.found.resize(keys_);
  scratch.buffers.resize(declared_.size());
  for (auto& messages : scratch.found) messages.clear();
  WireReader example(record);
  while (example.Next()) {
    if (!example.Is(1, WireReader::kBytes)) continue;
    BULKHEAD_RETURN_IF_ERROR(FindInFeatures(example.bytes(), scratch));
  }
  return example.failed() ? Malformed("its bytes are not a protobuf message") : absl::OkStatus();
}

absl::Status ExampleReader::Read(absl::string_view record, ExampleScratch& scratch,
                                 std::vector<FeatureValue>& values) const {
  BULKHEAD_RETURN_IF_ERROR(Find(record, scratch));
  values.resize(declared_.size());
  for (size_t i = 0; i < declared_.size(); ++i) {
    const Declared& declared = declared_[i];
    absl::Status status;
    if (declared.type == v1::Feature::kBoxes) {
      status = ReadBoxes(declared, scratch, scratch.buffers[i], values[i]);
    } else if (!ReadFeatureList(scratch.found[declared.found], scratch.list)) {
      status = SampleError(reason::kMalformedExample, "its list of values is damaged");
    } else if (scratch.list.kind == Kind::kNone) {
      status = SetMissing(declared, record, values[i]);
    } else {
      status = ReadFeature(declared, scratch.list, scratch.buffers[i], values[i]);
    }
    if (status.ok()) continue;
    return Annotate(status, absl::StrCat("feature `", declared.key, "`"),
                    {{"feature", declared.signature.name}});
  }
  return absl::OkStatus();
}

absl::Status ExampleReader::SetMissing(const Declared& declared, absl::string_view record,
                                       FeatureValue& value) {
  if (!declared.missing.is_allowed()) {
    return SampleError(
        reason::kMissingFeature,
        absl::StrCat("the record does not hold it; ", HeldInstead(record, declared.key),
                     "correct its `key`, or give it ", declared.missing.advice()));
  }
  value = declared.missing.Get();
  return absl::OkStatus();
}

absl::Status ExampleReader::ReadFeature(const Declared& declared, const FeatureList& list,
                                        ByteBuffer& buffer, FeatureValue& value) const {
  const Kind expected = ExpectedKind(declared.type);
  if (list.kind != expected) {
    absl::string_view type = absl::StripSuffix(KindName(list.kind), " list");
    type.remove_prefix(type.find(' ') + 1);  // the article
    return SampleError(
        reason::kWrongDType,
        absl::StrCat("the record holds ", KindName(list.kind), ", the spec says ",
                     KindName(expected),
                     list.kind == Kind::kNone ? "" : absl::StrCat("; declare it as ", type)));
  }
  switch (declared.type) {
    case v1::Feature::kBytes:
      if (declared.is_list) return ReadStrings(declared, list, buffer, value);
      return ReadBytes(declared, list, buffer, value);
    case v1::Feature::kTensor:
      return ReadTensorFeature(declared, list, buffer, value);
    default:
      return ReadNumbers(declared, list, buffer, value);
  }
}

absl::Status ExampleReader::ReadBytes(const Declared& declared, const FeatureList& list,
                                      ByteBuffer& buffer, FeatureValue& value) const {
  if (list.count != 1) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", list.count,
                                    " byte strings, not one; a list of them has a `shape`"));
  }
  const absl::string_view bytes = list.chunks[0];
  BULKHEAD_RETURN_IF_ERROR(CheckStringBound(bytes.size(), declared.max_bytes));
  value = FeatureValue{ValueBytes(bytes), bytes.size(), 1};
  if (declared.is_length) {
    char* const out = buffer.Reserve(8);
    StoreLittle<uint64_t>(out, bytes.size());
    value = FeatureValue{reinterpret_cast<const std::byte*>(out), 8, 1};
  }
  return absl::OkStatus();
}

absl::Status ExampleReader::ReadStrings(const Declared& declared, const FeatureList& list,
                                        ByteBuffer& buffer, FeatureValue& value) const {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows,
                            CountRows(list.count, declared.row_values, declared.signature));
  const uint64_t width = declared.max_bytes;
  for (const absl::string_view bytes : list.chunks) {
    BULKHEAD_RETURN_IF_ERROR(CheckStringBound(bytes.size(), width));
  }
  const uint64_t element_bytes = declared.is_length ? 8 : width;
  value.count = static_cast<int64_t>(rows);
  value.size_bytes = list.count * element_bytes;
  char* out = buffer.Reserve(value.size_bytes);
  value.data = reinterpret_cast<const std::byte*>(out);
  for (const absl::string_view bytes : list.chunks) {
    if (declared.is_length) {
      StoreLittle<uint64_t>(out, bytes.size());
    } else {
      std::copy(bytes.begin(), bytes.end(), out);
      std::fill(out + bytes.size(), out + width, '\0');
    }
    out += element_bytes;
  }
  return absl::OkStatus();
}

absl::Status ExampleReader::ReadBoxes(const Declared& declared, ExampleScratch& scratch,
                                      ByteBuffer& buffer, FeatureValue& value) const {
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
  value.count = static_cast<int64_t>(rows);
  value.size_bytes = rows * kSides * sizeof(float);
  char* const boxes = buffer.Reserve(value.size_bytes);
  value.data = reinterpret_cast<const std::byte*>(boxes);
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

absl::Status ExampleReader::ReadTensorFeature(const Declared& declared, const FeatureList& list,
                                              ByteBuffer& buffer, FeatureValue& value) const {
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

absl::Status ExampleReader::ReadNumbers(const Declared& declared, const FeatureList& list,
                                        ByteBuffer& buffer, FeatureValue& value) const {
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows,
                            CountRows(list.count, declared.row_values, declared.signature));
  value.count = static_cast<int64_t>(rows);
  value.size_bytes = list.count * ElementBytes(declared.signature.dtype);
  const bool floats = list.kind == Kind::kFloat;
  if (floats && list.chunks.size() == 1) {
    value.data = ValueBytes(list.chunks[0]);
    return absl::OkStatus();
  }
  char* out = buffer.Reserve(value.size_bytes);
  value.data = reinterpret_cast<const std::byte*>(out);
  for (absl::string_view chunk : list.chunks) {
    if (floats) {
      std::memcpy(out, chunk.data(), chunk.size());
      out += chunk.size();
      continue;
    }
    for (uint64_t number = 0; !chunk.empty() && TakeVarint(chunk, number); out += 8) {
      StoreLittle<uint64_t>(out, number);
    }
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
