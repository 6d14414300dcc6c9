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
#include "server/source/tfrecord/tensor_reader.h"
#include "server/source/tfrecord/wire_reader.h"

namespace bulkhead {
namespace {

using Kind = FeatureList::Kind;

absl::Status Malformed(absl::string_view what) {
  return SampleError(reason::kMalformedExample, absl::StrCat("is not a tf.Example: ", what));
}

const std::byte* AsBytes(absl::string_view view) {
  return reinterpret_cast<const std::byte*>(view.data());
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

// The bytes of `values`, repeated until `elements` are there when it is a single one.
template <typename T, typename Values>
std::string DefaultBytes(const Values& values, uint64_t elements) {
  std::string bytes;
  for (const T value : values) AppendLittle<T>(bytes, value);
  for (uint64_t i = 1; values.size() == 1 && i < elements; ++i) AppendLittle<T>(bytes, values[0]);
  return bytes;
}

}  // namespace

absl::Status ExampleReader::SetDefault(const v1::Feature& feature, Declared& declared) {
  const bool variable = declared.signature.variable;
  const uint64_t elements = declared.row_elements;
  uint64_t given = 0;
  if (declared.type == v1::Feature::kBytes) {
    declared.optional = feature.bytes().has_default_();
    declared.missing = feature.bytes().default_();
    return absl::OkStatus();
  }
  if (declared.type == v1::Feature::kTensor) {
    declared.optional = feature.tensor().allow_missing();
    if (!declared.optional || variable) return absl::OkStatus();
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat(declared.signature.path,
                                  ".tensor.allow_missing: goes with a variable shape only"),
                     {{"path", declared.signature.path}});
  }
  if (declared.type == v1::Feature::kInt64) {
    given = static_cast<uint64_t>(feature.int64().default__size());
    declared.missing = DefaultBytes<int64_t>(feature.int64().default_(), elements);
  } else {
    given = static_cast<uint64_t>(feature.float_().default__size());
    declared.missing = DefaultBytes<float>(feature.float_().default_(), elements);
  }
  declared.optional = variable || given > 0;
  const uint64_t bound = variable ? static_cast<uint64_t>(declared.signature.shape[0]) : 1;
  const bool fits = given <= 1 || (given % elements == 0 && given / elements <= bound);
  if (fits) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrCat(declared.signature.path, ".default: ", given,
                                " values do not fit the shape; give one, or one for each element"),
                   {{"path", declared.signature.path}});
}

absl::StatusOr<ExampleReader> ExampleReader::Create(
    const std::vector<FeatureSignature>& signatures,
    const google::protobuf::Map<std::string, v1::Feature>& features) {
  ExampleReader reader;
  for (const FeatureSignature& signature : signatures) {
    const v1::Feature& feature = features.at(signature.name);
    Declared declared;
    declared.signature = signature;
    declared.key = feature.key().empty() ? signature.name : feature.key();
    declared.type = feature.type_case();
    declared.cast = feature.tensor().cast();
    for (size_t i = signature.variable ? 1 : 0; i < signature.shape.size(); ++i) {
      declared.row_elements *= static_cast<uint64_t>(signature.shape[i]);
    }
    BULKHEAD_RETURN_IF_ERROR(SetDefault(feature, declared));
    reader.by_key_[declared.key].push_back(static_cast<int>(reader.declared_.size()));
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
  scratch.found.resize(declared_.size());
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
    if (!ReadFeatureList(scratch.found[i], scratch.list)) {
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
  if (!declared.optional) {
    const bool tensor = declared.type == v1::Feature::kTensor;
    return SampleError(
        reason::kMissingFeature,
        absl::StrCat("the record does not hold it; ", HeldInstead(record, declared.key),
                     "correct its `key`, or give it ",
                     tensor ? "`allow_missing: true`" : "a `default`"));
  }
  value.data = AsBytes(declared.missing);
  value.size_bytes = declared.missing.size();
  value.count = 1;
  if (declared.signature.variable) {
    const uint64_t row_bytes = declared.row_elements * ElementBytes(declared.signature.dtype);
    value.count = static_cast<int64_t>(declared.missing.size() / row_bytes);
  }
  return absl::OkStatus();
}

absl::Status ExampleReader::ReadFeature(const Declared& declared, const FeatureList& list,
                                        ByteBuffer& buffer, FeatureValue& value) const {
  const Kind expected = ExpectedKind(declared.type);
  if (list.kind != expected) {
    return SampleError(reason::kWrongDType, absl::StrCat("the record holds ", KindName(list.kind),
                                                         ", the spec says ", KindName(expected)));
  }
  switch (declared.type) {
    case v1::Feature::kBytes:
      return ReadBytes(declared, list, value);
    case v1::Feature::kTensor:
      return ReadTensorFeature(declared, list, buffer, value);
    default:
      return ReadNumbers(declared, list, buffer, value);
  }
}

absl::Status ExampleReader::ReadBytes(const Declared& declared, const FeatureList& list,
                                      FeatureValue& value) const {
  if (list.count != 1) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", list.count, " byte strings, not one"));
  }
  const absl::string_view bytes = list.chunks[0];
  const uint64_t bound = declared.signature.max_bytes;
  if (bound > 0 && bytes.size() > bound) {
    return SampleError(reason::kOverBound, absl::StrCat("the string has ", bytes.size(),
                                                        " bytes, max_bytes is ", bound));
  }
  value = FeatureValue{AsBytes(bytes), bytes.size(), 1};
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
  value = FeatureValue{AsBytes(tensor.bytes), tensor.bytes.size(), tensor.count};
  return absl::OkStatus();
}

absl::Status ExampleReader::ReadNumbers(const Declared& declared, const FeatureList& list,
                                        ByteBuffer& buffer, FeatureValue& value) const {
  const FeatureSignature& signature = declared.signature;
  const uint64_t row = declared.row_elements;
  if (signature.variable ? list.count % row != 0 : list.count != row) {
    return SampleError(
        reason::kWrongShape,
        absl::StrCat("the record holds ", list.count, " values, the spec's shape needs ",
                     signature.variable ? "a multiple of " : "", row));
  }
  const uint64_t rows = signature.variable ? list.count / row : 1;
  if (signature.variable && rows > static_cast<uint64_t>(signature.shape[0])) {
    return SampleError(reason::kOverBound,
                       absl::StrCat("the record holds ", rows, " rows, max_count is ",
                                    signature.shape[0], "; raise max_count to take it"));
  }
  value.count = static_cast<int64_t>(rows);
  value.size_bytes = list.count * ElementBytes(signature.dtype);
  const bool floats = list.kind == Kind::kFloat;
  if (floats && list.chunks.size() == 1) {
    value.data = AsBytes(list.chunks[0]);
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
