#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

constexpr int kMaxFeatures = 64;
constexpr int kMaxDimensions = 8;
constexpr int64_t kMaxExtent = int64_t{1} << 32;
// The most channels of an image: image stages take no more.
constexpr int64_t kMaxImageChannels = 4;

// A letter or _ first, then letters, digits and _, as for names in Python.
bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

bool IsDottedName(absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    if (!IsName(part)) return false;
  }
  return true;
}

void CheckFunction(const v1::Python& stage, const std::string& path, SpecProblems& problems) {
  const std::string place = path + ".function";
  if (stage.function().empty()) return;
  const std::vector<std::string> parts = absl::StrSplit(stage.function(), ':');
  if (parts.size() != 2 || !IsDottedName(parts[0]) || !IsDottedName(parts[1])) {
    problems.Add(place, "`", stage.function().substr(0, kMaxNameBytes),
                 "` is not \"module:name\", such as augment:process");
  } else if (parts[0] == "__main__") {
    problems.Add(place,
                 "names the program that was started, which workers cannot import; put the "
                 "function into a file of its own, such as augment.py, and write augment:" +
                     parts[1]);
  }
}

// The stage that reads a dataset of the client's (bulkhead.Source) has the client's own function,
// and the dataset's class as an argument, which messages show.
CodeName NameOfCode(const v1::Python& stage) {
  const auto dataset = stage.arguments().find("dataset");
  const bool reads = absl::StartsWith(stage.function(), "bulkhead_dataset:");
  return {stage.function(),
          reads && dataset != stage.arguments().end() ? dataset->second : stage.function()};
}

CodeName NameOfCode(const v1::Native& stage) { return {stage.library(), stage.library()}; }

void CheckLibrary(const v1::Native& stage, const std::string& path, SpecProblems& problems) {
  if (!absl::StrContains(stage.library(), absl::string_view("\0", 1))) return;
  problems.Add(path + ".library", "holds a zero byte, which no file name can");
}

void CheckShape(const v1::StageOutput& output, const std::string& path, SpecProblems& problems) {
  const bool variable = output.shape_size() > 0 && output.shape(0) == -1;
  if (output.shape_size() > kMaxDimensions) {
    problems.Add(path + ".shape", "has more than ", kMaxDimensions, " dimensions");
  }
  for (int i = variable ? 1 : 0; i < output.shape_size(); ++i) {
    const int64_t extent = output.shape(i);
    if (extent >= 1 && extent <= kMaxExtent) continue;
    problems.Add(path + ".shape",
                 extent == -1 ? "only the first dimension may be -1 (variable)"
                              : absl::StrCat("holds ", extent, "; an extent lies between 1 and ",
                                             kMaxExtent));
    break;
  }
  const bool bytes = output.dtype() == v1::DTYPE_BYTES;
  if (bytes && output.shape_size() > 0) {
    problems.Add(path + ".shape", "a byte string has no dimensions; its bound is max_count");
  }
  if ((variable || bytes) && output.max_count() == 0) {
    problems.Add(path + ".max_count",
                 bytes ? "is required for bytes: the most bytes there can be"
                       : "is required: the most rows there can be, since shape[0] is -1");
  } else if (!variable && !bytes && output.max_count() > 0) {
    problems.Add(path + ".max_count", "is for a first dimension of -1 only");
  } else if (output.max_count() > static_cast<uint64_t>(kMaxExtent)) {
    problems.Add(path + ".max_count", "is over the limit of ", kMaxExtent);
  }
}

// The common part of the two kinds.
template <typename Message>
void CheckUser(const Message& stage, const std::string& path, SpecProblems& problems) {
  if (stage.inputs_size() > kMaxFeatures || stage.outputs_size() > kMaxFeatures) {
    problems.Add(path, "has more than ", kMaxFeatures, " inputs or outputs");
  }
  std::set<std::string> names;
  for (int i = 0; i < stage.outputs_size(); ++i) {
    const v1::StageOutput& output = stage.outputs(i);
    const std::string place = absl::StrCat(path, ".outputs[", i, "]");
    if (!IsFeatureName(output.name())) {
      problems.Add(place + ".name",
                   "is required: a letter or _ first, then letters, digits and _ - / .");
    } else if (!names.insert(output.name()).second) {
      problems.Add(place + ".name", "`", output.name(), "` is listed twice");
    }
    if (output.dtype() == v1::DTYPE_UNSPECIFIED || !v1::DType_IsValid(output.dtype())) {
      problems.Add(place + ".dtype", "is required: the element type, such as float32");
    }
    CheckShape(output, place, problems);
  }
  for (const auto& [name, value] : stage.arguments()) {
    if (!IsName(name)) {
      problems.Add(path + ".arguments", "`", name.substr(0, kMaxNameBytes),
                   "` cannot be an argument's name");
    }
  }
}

FeatureSignature SignatureOf(const v1::StageOutput& output, absl::string_view path) {
  FeatureSignature feature;
  feature.name = output.name();
  feature.dtype = output.dtype();
  feature.path = std::string(path);
  if (output.dtype() == v1::DTYPE_BYTES) {
    feature.kind = Kind::kEncoded;
    feature.max_bytes = output.max_count();
    return feature;
  }
  feature.shape.assign(output.shape().begin(), output.shape().end());
  feature.variable = !feature.shape.empty() && feature.shape[0] == -1;
  if (feature.variable) feature.shape[0] = static_cast<int64_t>(output.max_count());
  const bool image =
      !feature.variable && feature.shape.size() == 3 &&
      std::max(feature.shape[0], feature.shape[1]) <= std::numeric_limits<int>::max() &&
      feature.shape[2] <= kMaxImageChannels && output.dtype() != v1::DTYPE_BOOL &&
      !IsForDelivery(output.dtype());
  if (image) feature.kind = Kind::kImage;
  return feature;
}

template <typename Message>
std::vector<std::string> OutputNames(const Message& stage) {
  std::vector<std::string> names;
  for (const v1::StageOutput& output : stage.outputs()) names.push_back(output.name());
  return names;
}

// Reads features and creates or replaces features.
template <typename Message>
class UserKind : public StageKind {
 public:
  using CheckFn = void (*)(const Message& stage, const std::string& path, SpecProblems& problems);

  UserKind(std::vector<Option> options, CheckFn check, StageTraits::UserCode code)
      : StageKind(Message::descriptor(), std::move(options),
                  {.is_random = true,
                   .holds_result = true,
                   .motion = StageTraits::Motion::kReplaces,
                   .user_code = code}),
        check_(check) {}

  CodeName CodeOf(const v1::Stage& stage) const override { return NameOfCode(Of(stage)); }

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    const auto& inputs = Of(stage).inputs();
    if (inputs.empty()) return {"image"};
    return {inputs.begin(), inputs.end()};
  }

  std::vector<std::string> Makes(const v1::Stage& stage) const override {
    return OutputNames(Of(stage));
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    check_(Of(stage), path, problems);
    CheckUser(Of(stage), path, problems);
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    for (const v1::StageOutput& output : Of(stage).outputs()) {
      FeatureSignature made = SignatureOf(output, path);
      if (FindFeature(features, made.name) != nullptr) {
        FeatureNamed(features, output.name()) = std::move(made);
      } else {
        BULKHEAD_RETURN_IF_ERROR(InsertFeature(std::move(made), path, features));
      }
    }
    return absl::OkStatus();
  }

 private:
  static const Message& Of(const v1::Stage& stage) {
    return static_cast<const Message&>(OptionsOf(stage));
  }

  CheckFn check_;
};

// The declarations of a kind whose code the option `code` names.
std::vector<Option> UserOptions(Option code) {
  return {std::move(code), Option("inputs").DefaultName("image"),
          Option("outputs").Required("what the stage gives back, such as [{name: image, dtype: "
                                     "uint8, shape: [224, 224, 3]}]")};
}

std::vector<Option> PythonOptions() {
  return UserOptions(Option("function").Required("\"module:name\", such as augment:process"));
}

// `python` as a batch stage. Rows of a batch have a fixed width, so an output has one shape.
class PythonBatchKind : public BatchKind {
 public:
  PythonBatchKind()
      : BatchKind(v1::Python::descriptor(), PythonOptions(),
                  {.mixes_rows = true, .user_code = StageTraits::UserCode::kPython}) {}

  bool IsRandom(const v1::BatchStage&) const override { return true; }
  CodeName CodeOf(const v1::BatchStage& stage) const override { return NameOfCode(stage.python()); }

  void CheckRules(const v1::BatchStage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    CheckFunction(stage.python(), path, problems);
    CheckUser(stage.python(), path, problems);
    for (int i = 0; i < stage.python().outputs_size(); ++i) {
      const v1::StageOutput& output = stage.python().outputs(i);
      const std::string place = absl::StrCat(path, ".outputs[", i, "]");
      if (output.dtype() == v1::DTYPE_BYTES) {
        problems.Add(place + ".dtype", "cannot be bytes in batch_stages; give uint8 numbers");
      } else if (output.shape_size() > 0 && output.shape(0) == -1) {
        problems.Add(
            place + ".shape",
            "is the shape of one row, without the batch's dimension, and cannot vary here");
      }
    }
  }

  std::vector<FeatureSignature> Adds(const v1::BatchStage& stage,
                                     const std::string& path) const override {
    std::vector<FeatureSignature> features;
    for (const v1::StageOutput& output : stage.python().outputs()) {
      features.push_back(SignatureOf(output, path));
    }
    return features;
  }

  std::vector<std::string> Makes(const v1::BatchStage& stage,
                                 const std::vector<FeatureSignature>&) const override {
    return OutputNames(stage.python());
  }

  absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                     BatchOutputs& outputs) const override {
    for (const std::string& name : stage.python().inputs()) {
      BULKHEAD_RETURN_IF_ERROR(outputs.Need(name, path + ".inputs").status());
    }
    for (int i = 0; i < stage.python().outputs_size(); ++i) {
      const v1::StageOutput& output = stage.python().outputs(i);
      const std::string place = absl::StrCat(path, ".outputs[", i, "]");
      const v1::TensorSchema* const tensor = outputs.Tensor(output.name());
      if (tensor == nullptr) {
        return SpecError(place + ".name", "`", output.name(),
                         "` is not among the outputs; add it to outputs: [...]");
      }
      const std::string declared = DescribeRow(output.dtype(), output.shape());
      if (declared != DescribeRow(*tensor)) {
        return SpecError(
            place, "declares `", output.name(), "` as ", declared, ", but it is ",
            DescribeRow(*tensor),
            " in the batch, where it is replaced in place; give the result another name");
      }
      if (outputs.IsPacked(output.name())) return outputs.Need(output.name(), place).status();
      outputs.Make(output.name());
    }
    return absl::OkStatus();
  }
};

}  // namespace

BatchKinds UserBatchKinds() { return Family<BatchKind>(std::make_unique<PythonBatchKind>()); }

StageKinds UserKinds() {
  return Family(std::make_unique<UserKind<v1::Python>>(PythonOptions(), CheckFunction,
                                                       StageTraits::UserCode::kPython),
                std::make_unique<UserKind<v1::Native>>(
                    UserOptions(Option("library").Required("the file of the shared library")),
                    CheckLibrary, StageTraits::UserCode::kLibrary));
}

}  // namespace bulkhead
