#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/spec/fingerprint.h"
#include "tools/validate/spec_report.h"

namespace bulkhead::tools {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;

// JSON with the keys of every object in order, so that equal reports give equal text: protobuf's
// printer, which writes the scalars here, leaves the order of keys to a hash map. `newline` ends a
// line and begins the next one at the value's own margin.
std::string SortedJson(const google::protobuf::Value& value, const std::string& newline) {
  const std::string inner = newline + "  ";
  std::vector<std::string> items;
  if (value.has_list_value()) {
    for (const auto& item : value.list_value().values()) items.push_back(SortedJson(item, inner));
  } else if (value.has_struct_value()) {
    std::map<std::string, std::string> members;
    for (const auto& [key, member] : value.struct_value().fields()) {
      google::protobuf::Value name;
      name.set_string_value(key);
      members[key] = SortedJson(name, inner) + ": " + SortedJson(member, inner);
    }
    for (const auto& [key, text] : members) items.push_back(text);
  } else {
    std::string text;
    const auto status = google::protobuf::util::MessageToJsonString(value, &text);
    return status.ok() ? text : "null";
  }
  const bool list = value.has_list_value();
  const std::string body =
      items.empty() ? "" : absl::StrCat(inner, absl::StrJoin(items, "," + inner), newline);
  return absl::StrCat(list ? "[" : "{", body, list ? "]" : "}");
}

void AddStrings(const std::vector<std::string>& texts, ListValue& list) {
  for (const std::string& text : texts) list.add_values()->set_string_value(text);
}

using Fields = google::protobuf::Map<std::string, google::protobuf::Value>;

void AddNumber(const std::string& key, uint64_t value, Fields& fields) {
  fields[key].set_number_value(static_cast<double>(value));
}

void AddCounts(const v1::SelectionCounts& counts, Fields& fields) {
  if (counts.records() > 0) {
    AddNumber("records", counts.records(), fields);
    AddNumber("records_in_part", counts.in_part(), fields);
    AddNumber("records_kept", counts.kept(), fields);
  }
  AddNumber("samples_per_epoch", counts.samples(), fields);
}

void AddClasses(const ClassCounts& features, Struct& object) {
  for (const auto& [feature, classes] : features) {
    Fields& counts =
        *(*object.mutable_fields())[Printable(feature)].mutable_struct_value()->mutable_fields();
    for (const auto& [name, count] : classes) {
      AddNumber(Printable(name), count, counts);
    }
  }
}

// Whether a source has a `classes_file`, whose names, which are not read here, count for the
// fingerprint.
bool NamesClassesFile(const v1::PipelineSpec& spec) {
  const auto has = [](const v1::Source& source) {
    return !source.image_list().classes_file().empty() ||
           !source.image_folder().classes_file().empty();
  };
  const auto& mixed = spec.source().mixture().sources();
  return has(spec.source()) || std::any_of(mixed.begin(), mixed.end(),
                                           [&](const auto& part) { return has(part.source()); });
}

}  // namespace

void AddReport(const std::string& name, const SpecReport& report, Struct& object) {
  auto& fields = *object.mutable_fields();
  const v1::BatchSchema& schema = report.signature.schema;
  ListValue& outputs = *fields["outputs"].mutable_list_value();
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    auto& output = *outputs.add_values()->mutable_struct_value()->mutable_fields();
    output["name"].set_string_value(tensor.name());
    output["dtype"].set_string_value(std::string(DTypeName(tensor.dtype())));
    ListValue& shape = *output["shape"].mutable_list_value();
    for (const int64_t extent : tensor.shape()) {
      shape.add_values()->set_number_value(static_cast<double>(extent));
    }
    AddNumber("element_bytes", tensor.element_bytes(), output);
    AddNumber("sample_bytes", tensor.sample_bytes(), output);
    AddNumber("batch_offset", tensor.batch_offset(), output);
    output["packing"].set_string_value(PackingOf(tensor));
  }
  AddNumber("batch_size", schema.batch_size(), fields);
  AddNumber("batch_bytes", schema.batch_bytes(), fields);
  AddNumber("slot_count", report.memory.slot_count(), fields);
  AddNumber("slot_bytes", report.memory.slot_bytes(), fields);
  AddNumber("arena_bytes", report.memory.arena_bytes(), fields);
  AddNumber("sample_bytes", report.signature.sample_bytes, fields);
  if (report.counts.has_value()) {
    AddCounts(report.counts->whole, fields);
    ListValue& selections = *fields["selections"].mutable_list_value();
    for (const v1::SelectionCounts& counts : report.counts->selections) {
      AddCounts(counts, *selections.add_values()->mutable_struct_value()->mutable_fields());
    }
    if (!report.counts->classes.empty()) {
      AddClasses(report.counts->classes, *fields["classes"].mutable_struct_value());
    }
  }
  ListValue& caches = *fields["caches"].mutable_list_value();
  for (const CacheReport& cache : report.caches) {
    auto& object = *caches.add_values()->mutable_struct_value()->mutable_fields();
    object["path"].set_string_value(cache.path);
    AddNumber("sample_bytes", cache.KeptBytes(), object);
    AddNumber("bytes", cache.AllBytes(), object);
    AddNumber("samples_measured", cache.look.value_or(KeptLook{}).samples, object);
    if (!cache.look_status.ok()) {
      object["not_measured"].set_string_value(std::string(cache.look_status.message()));
    }
  }
  if (report.counts.has_value()) {
    fields["bytes_fingerprint"].set_string_value(report.counts->bytes_fingerprint);
  } else if (!NamesClassesFile(report.spec)) {
    fields["bytes_fingerprint"].set_string_value(BytesFingerprint(report.spec));
  }
  fields["spec"].set_string_value(SpecToYaml(report.spec));
  AddStrings(report.random_stages, *fields["random_stages"].mutable_list_value());
  AddStrings(Warnings(name, report), *fields["warnings"].mutable_list_value());
}

void AddProblems(const absl::Status& status, Struct& object) {
  auto& fields = *object.mutable_fields();
  const ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{});
  fields["reason"].set_string_value(info.reason);
  AddStrings(absl::StrSplit(status.message(), '\n'), *fields["problems"].mutable_list_value());
}

std::string SortedJson(const google::protobuf::Value& value) { return SortedJson(value, "\n"); }

}  // namespace bulkhead::tools
