#include "client/cpp/internal/batch/layout.h"

#include <google/protobuf/util/json_util.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/internal/base/element_type.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

std::optional<Packing> PackingOf(v1::Packing packing) {
  switch (packing) {
    case v1::PACKING_UNSPECIFIED:
    case v1::PACKING_NORMALIZED_BY_CLIENT:
      return Packing::kSamples;
    case v1::PACKING_ROWS:
      return Packing::kRows;
    case v1::PACKING_EXTENTS:
    case v1::PACKING_EXTENTS_CHANNELS_FIRST:
      return Packing::kExtents;
    default:
      return std::nullopt;
  }
}

// What is left to do to a tensor of uint8 of that shape; null if this client does not know it.
std::shared_ptr<const Normalization> NormalizationOf(const v1::Normalization& message,
                                                     const std::vector<int64_t>& shape) {
  const bool divides = message.divide_size() > 0;
  const auto& first = divides ? message.divide() : message.mean();
  const auto& second = divides ? message.subtract() : message.std();
  const ElementTypeRow* type = RowOf(message.dtype());
  const auto fits = [&](const auto& numbers) {
    return numbers.size() == 1 || (numbers.size() > 0 && numbers.size() == shape.back());
  };
  const bool known = type != nullptr &&
                     (type->type == ElementType::kFloat32 || type->type == ElementType::kFloat16 ||
                      type->type == ElementType::kBfloat16);
  if (!known || shape.size() < (message.channels_first() ? 3 : 1) || !fits(first) ||
      !fits(second)) {
    return nullptr;
  }
  return std::make_shared<Normalization>(Normalization{divides,
                                                       {first.begin(), first.end()},
                                                       {second.begin(), second.end()},
                                                       type->type,
                                                       message.channels_first()});
}

absl::StatusOr<TensorInfo> MakeTensorInfo(const v1::TensorSchema& schema) {
  const auto wrong = [&](absl::string_view what) {
    return ProtocolError(absl::StrCat("output '", schema.name(), "': ", what));
  };
  const ElementTypeRow* type = RowOf(schema.dtype());
  if (schema.name().empty()) return wrong("it has no name");
  if (type == nullptr) return wrong("its element type is unknown");
  if (schema.element_bytes() == 0 || (type->bytes != 0 && schema.element_bytes() != type->bytes)) {
    return wrong("its elements have the wrong size");
  }
  const auto packing = PackingOf(schema.packing());
  if (!packing.has_value()) {
    return wrong("its samples are packed in a way that this client does not know; update it");
  }
  TensorInfo info{schema.name(),         type->type, schema.element_bytes(), {},
                  schema.sample_bytes(), *packing};
  uint64_t bytes = schema.element_bytes();
  for (const int64_t dimension : schema.shape()) {
    if (dimension < 0) return wrong("its shape is not static");
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) {
      return wrong("its size overflows");
    }
    info.shape.push_back(dimension);
  }
  if (bytes != schema.sample_bytes()) return wrong("its size does not agree with its shape");
  if (schema.packing() == v1::PACKING_NORMALIZED_BY_CLIENT) {
    info.normalization = NormalizationOf(schema.normalization(), info.shape);
    if (info.normalization == nullptr || info.dtype != ElementType::kUint8) {
      return wrong("it has to be normalized in a way that this client does not know; update it");
    }
  }
  info.class_names.assign(schema.class_names().begin(), schema.class_names().end());
  return info;
}

void AppendJsonString(const std::string& text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (byte < 0x20) {
      absl::StrAppend(out, "\\u00", std::string(1, kHex[byte >> 4]),
                      std::string(1, kHex[byte & 15]));
    } else {
      *out += c;
    }
  }
  *out += '"';
}

absl::Status CheckNames(const BatchLayout& layout) {
  std::set<std::string> names;
  for (const TensorInfo& info : layout.tensors) {
    if (!names.insert(info.name).second) {
      return ProtocolError(absl::StrCat("two outputs are called '", info.name, "'"));
    }
  }
  return absl::OkStatus();
}

// The tensor that says how the packed one numbered `index` lies.
absl::StatusOr<size_t> ToldBy(const BatchLayout& layout, size_t index) {
  const TensorInfo& packed = layout.tensors[index];
  if (packed.packing != Packing::kRows && packed.packing != Packing::kExtents) return index;
  const bool rows = packed.packing == Packing::kRows;
  const std::string name = absl::StrCat(packed.name, rows ? "_count" : "_size");
  const std::vector<int64_t> shape = rows ? std::vector<int64_t>{} : std::vector<int64_t>{2};
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const TensorInfo& info = layout.tensors[i];
    if (info.name != name || info.dtype != ElementType::kInt64 || info.shape != shape ||
        info.packing != Packing::kSamples ||
        (rows ? packed.shape.empty() : packed.shape.size() != 3)) {
      continue;
    }
    return i;
  }
  return ProtocolError(
      absl::StrCat("output '", packed.name, "' is packed, and no '", name, "' says how"));
}

int64_t NumberAt(const uint8_t* numbers, uint64_t index) {
  int64_t number = 0;
  std::memcpy(&number, numbers + index * sizeof(number), sizeof(number));
  return number;
}

Tensor OffsetsTensor(const TensorInfo& info, const std::vector<int64_t>& offsets) {
  return {info.name,          info.dtype,
          info.element_bytes, {static_cast<int64_t>(offsets.size())},
          offsets.data(),     offsets.size() * sizeof(int64_t),
          info.packing};
}

// Each count is read once, since other processes that share the memory may change it.
absl::Status ViewRows(const TensorInfo& info, const uint8_t* counts, uint64_t samples,
                      std::vector<int64_t>* offsets, Tensor* tensor) {
  const int64_t bound = info.shape[0];
  offsets->reserve(samples + 1);
  offsets->push_back(0);
  for (uint64_t i = 0; i < samples; ++i) {
    const int64_t count = NumberAt(counts, i);
    if (count < 0 || count > bound) {
      return ProtocolError(absl::StrCat("sample ", i, " has ", count, " rows of '", info.name,
                                        "', of which there are 0 to ", bound));
    }
    offsets->push_back(offsets->back() + count);
  }
  tensor->shape.erase(tensor->shape.begin());
  tensor->shape[0] = offsets->back();
  tensor->bytes = bound == 0 ? 0
                             : info.sample_bytes / static_cast<uint64_t>(bound) *
                                   static_cast<uint64_t>(offsets->back());
  return absl::OkStatus();
}

// Every row of `sizes` says the same; the first one counts.
absl::Status ViewExtents(const TensorInfo& info, bool channels_first, const uint8_t* sizes,
                         Tensor* tensor) {
  const size_t first = channels_first ? 1 : 0;  // of height and width
  const int64_t height = NumberAt(sizes, 0);
  const int64_t width = NumberAt(sizes, 1);
  if (height < 1 || width < 1 || height > info.shape[first] || width > info.shape[first + 1]) {
    return ProtocolError(absl::StrCat("'", info.name, "' has ", height, " x ", width,
                                      " pixels, at most ", info.shape[first], " x ",
                                      info.shape[first + 1], " are possible"));
  }
  tensor->shape[1 + first] = height;
  tensor->shape[2 + first] = width;
  tensor->bytes = info.element_bytes;
  for (const int64_t extent : tensor->shape) tensor->bytes *= static_cast<uint64_t>(extent);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BatchLayout> MakeLayout(const v1::BatchSchema& schema) {
  BatchLayout layout;
  layout.batch_size = schema.batch_size();
  layout.batch_bytes = schema.batch_bytes();
  if (layout.batch_size == 0) return ProtocolError("batches hold no samples");
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    BULKHEAD_ASSIGN_OR_RETURN(auto info, MakeTensorInfo(tensor));
    uint64_t end = 0;
    if (tensor.batch_offset() % 64 != 0 ||
        __builtin_mul_overflow(info.sample_bytes, layout.batch_size, &end) ||
        __builtin_add_overflow(end, tensor.batch_offset(), &end) || end > layout.batch_bytes) {
      return ProtocolError(absl::StrCat("output '", tensor.name(), "' does not fit its batch"));
    }
    layout.tensors.push_back(std::move(info));
    layout.offsets.push_back(tensor.batch_offset());
    layout.channels_first.push_back(tensor.packing() == v1::PACKING_EXTENTS_CHANNELS_FIRST);
    if (layout.tensors.back().packing != Packing::kRows) continue;
    layout.tensors.push_back({absl::StrCat(tensor.name(), "_offsets"),
                              ElementType::kInt64,
                              sizeof(int64_t),
                              {},
                              sizeof(int64_t),
                              Packing::kOffsets});
    layout.offsets.push_back(BatchLayout::kNoMemory);
    layout.channels_first.push_back(false);
  }
  BULKHEAD_RETURN_IF_ERROR(CheckNames(layout));
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(layout.told_by.emplace_back(), ToldBy(layout, i));
  }
  return layout;
}

absl::StatusOr<std::vector<Tensor>> ViewTensors(const BatchLayout& layout, const uint8_t* memory,
                                                uint64_t samples,
                                                std::vector<std::vector<int64_t>>* row_offsets) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const TensorInfo& info = layout.tensors[i];
    if (info.packing == Packing::kOffsets) {
      tensors.push_back(OffsetsTensor(info, row_offsets->back()));
      tensors[i - 1].row_offsets = row_offsets->back().data();
      continue;
    }
    Tensor tensor{info.name,
                  info.dtype,
                  info.element_bytes,
                  info.shape,
                  memory + layout.offsets[i],
                  info.sample_bytes * samples,
                  info.packing};
    tensor.normalization = info.normalization.get();
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(samples));
    const uint8_t* const told = memory + layout.offsets[layout.told_by[i]];
    absl::Status packed;
    if (info.packing == Packing::kRows) {
      packed = ViewRows(info, told, samples, &row_offsets->emplace_back(), &tensor);
    } else if (info.packing == Packing::kExtents) {
      packed = ViewExtents(info, layout.channels_first[i], told, &tensor);
    }
    if (!packed.ok()) return packed;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void AddCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files, v1::Cursor* cursor) {
  if (files.empty()) return;
  std::map<std::string, v1::CodeFile> code;
  for (const v1::CodeFile& file : cursor->code()) code[file.name()] = file;
  for (const v1::CodeFile& file : files) code[file.name()] = file;
  cursor->clear_code();
  for (const auto& [name, file] : code) *cursor->add_code() = file;
}

std::string CursorToJson(const v1::Cursor& cursor) {
  std::string json = absl::StrCat("{\"version\":", cursor.version(), ",\"order_fingerprint\":");
  AppendJsonString(cursor.order_fingerprint(), &json);
  json += ",\"bytes_fingerprint\":";
  AppendJsonString(cursor.bytes_fingerprint(), &json);
  absl::StrAppend(&json, ",\"epoch\":", cursor.epoch(), ",\"consumed\":", cursor.consumed(),
                  ",\"samples_per_epoch\":", cursor.samples_per_epoch(), ",\"quarantined\":[");
  for (int i = 0; i < cursor.quarantined_size(); ++i) {
    if (i > 0) json += ',';
    AppendJsonString(cursor.quarantined(i), &json);
  }
  absl::StrAppend(&json, "],\"substitutions\":", cursor.substitutions());
  if (cursor.completed_size() > 0) {
    absl::StrAppend(&json, ",\"completed\":[", absl::StrJoin(cursor.completed(), ","),
                    "],\"batch_size\":", cursor.batch_size(),
                    ",\"world_size\":", cursor.world_size());
  }
  if (cursor.code_size() > 0) {
    json += ",\"code\":[";
    for (int i = 0; i < cursor.code_size(); ++i) {
      json += i > 0 ? ",{\"name\":" : "{\"name\":";
      AppendJsonString(cursor.code(i).name(), &json);
      json += ",\"digest\":";
      AppendJsonString(cursor.code(i).digest(), &json);
      json += cursor.code(i).later() ? ",\"later\":true}" : "}";
    }
    json += ']';
  }
  json += '}';
  return json;
}

absl::StatusOr<v1::Cursor> CursorFromJson(const std::string& json) {
  v1::Cursor cursor;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &cursor);
  if (!status.ok()) {
    return MakeClientError(
        absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
        absl::StrCat("the cursor is not one that a batch gave: ",
                     std::string(status.message().data(), status.message().size())));
  }
  return cursor;
}

}  // namespace bulkhead::client_internal
