#include "server/source/tfrecord/step_list.h"

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/source/records/value_rules.h"
#include "server/source/tfrecord/wire_reader.h"

namespace bulkhead {
namespace {

using Messages = absl::InlinedVector<absl::string_view, 1>;

constexpr uint32_t kStep = 1;  // the field `feature` of tf.FeatureList

absl::Status DamagedSteps(absl::string_view what) {
  return SampleError(reason::kMalformedExample, absl::StrCat(what, " is damaged"));
}

absl::Status CountSteps(const Messages& messages, uint64_t& steps) {
  steps = 0;
  for (const absl::string_view message : messages) {
    WireReader reader(message);
    while (reader.Next()) steps += reader.Is(kStep, WireReader::kBytes) ? 1 : 0;
    if (reader.failed()) return DamagedSteps("its list of steps");
  }
  return absl::OkStatus();
}

absl::Status WrongValues(uint64_t values, uint64_t wanted) {
  return SampleError(reason::kWrongShape,
                     absl::StrCat("it holds ", values, " values, the spec's shape needs ", wanted,
                                  " in each step"));
}

absl::Status WrongSteps(uint64_t steps, uint64_t wanted, absl::string_view advice) {
  return SampleError(
      reason::kWrongShape,
      absl::StrCat("the record holds ", steps, " steps, the spec's shape needs ", wanted, advice));
}

// Writes one step to `out`, which becomes its end.
absl::Status ReadStep(absl::string_view message, const StepTarget& target, FeatureList& list,
                      char*& out) {
  if (!ReadFeatureList({message}, list)) return DamagedSteps("it");
  BULKHEAD_RETURN_IF_ERROR(CheckKind(list, target.kind));
  if (list.count != target.step_values) return WrongValues(list.count, target.step_values);
  if (list.kind != FeatureList::Kind::kBytes) {
    out = WriteNumbers(list, out);
    return absl::OkStatus();
  }
  for (const absl::string_view bytes : list.chunks) {
    BULKHEAD_RETURN_IF_ERROR(CheckStringBound(bytes.size(), target.max_bytes));
  }
  out = target.is_length ? WriteLengths(list, out) : WriteStrings(list, target.max_bytes, out);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSteps(const Messages& messages, const StepTarget& target, FeatureList& list,
                       ByteBuffer& buffer, FeatureValue& value, uint64_t& steps) {
  const FeatureSignature& signature = target.signature;
  BULKHEAD_RETURN_IF_ERROR(CountSteps(messages, steps));
  if (signature.variable) {
    BULKHEAD_RETURN_IF_ERROR(CheckRowBound(steps, signature));
  } else if (steps != static_cast<uint64_t>(signature.shape[0])) {
    return WrongSteps(steps, static_cast<uint64_t>(signature.shape[0]),
                      "; shape: [-1, …] takes any number");
  }
  uint64_t step_bytes = ElementBytes(signature.dtype);
  for (size_t i = 1; i < signature.shape.size(); ++i) {
    step_bytes *= static_cast<uint64_t>(signature.shape[i]);
  }
  char* out = ReserveValue(buffer, steps * step_bytes, signature.variable ? steps : 1, value);
  uint64_t step = 0;
  for (const absl::string_view message : messages) {
    for (WireReader reader(message); reader.Next();) {
      if (!reader.Is(kStep, WireReader::kBytes)) continue;
      const absl::Status status = ReadStep(reader.bytes(), target, list, out);
      if (!status.ok()) return Annotate(status, absl::StrCat("step ", step));
      ++step;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> ReadStepString(const Messages& messages, uint64_t steps,
                                                 uint64_t step, FeatureList& list) {
  uint64_t found = 0;
  BULKHEAD_RETURN_IF_ERROR(CountSteps(messages, found));
  if (found != steps) return WrongSteps(found, steps, "");
  uint64_t at = 0;
  for (const absl::string_view message : messages) {
    for (WireReader reader(message); reader.Next();) {
      if (!reader.Is(kStep, WireReader::kBytes) || at++ != step) continue;
      const absl::Status status = [&] {
        if (!ReadFeatureList({reader.bytes()}, list)) return DamagedSteps("it");
        BULKHEAD_RETURN_IF_ERROR(CheckKind(list, FeatureList::Kind::kBytes));
        return list.count == 1 ? absl::OkStatus() : WrongValues(list.count, 1);
      }();
      if (!status.ok()) return Annotate(status, absl::StrCat("step ", step));
      return list.chunks[0];
    }
  }
  return DamagedSteps("its list of steps");  // not reached: the step was counted
}

}  // namespace bulkhead
