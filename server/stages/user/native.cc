#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bulkhead/stage.h"
#include "server/base/error.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/user_code.h"
#include "server/stages/user/user_values.h"

namespace bulkhead {
namespace {

constexpr size_t kErrorBytes = 2048;
using ErrorText = std::array<char, kErrorBytes>;

template <typename... Parts>
absl::Status Unusable(const Parts&... what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                   absl::StrCat(what...));
}

// The text that a library wrote, with or without a terminating zero.
std::string TextOf(ErrorText& error) {
  error.back() = 0;
  return error[0] == 0 ? "it gave no reason" : error.data();
}

// What an exception that leaves `call`, of a library, says. std::bad_alloc is thrown on, and so is
// what ends a thread.
std::optional<std::string> ExceptionOf(absl::FunctionRef<void()> call) {
  try {
    call();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    return absl::StrCat(exception.what());  // which may be null
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return "an exception of an unknown type";
  }
}

// The message reveals nothing else about this machine: neither what exists nor where a link leads.
absl::Status LeadsOut(const std::string& name, const std::vector<std::string>& folders) {
  return MakeError(absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
                   absl::StrCat("`", name, "` leads out of the --native-path of the service (",
                                absl::StrJoin(folders, ", "), ")"));
}

bool LiesBelow(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return absl::StartsWith(path, absl::StrCat(folder, "/"));
  });
}

// The library's path, links resolved, which is below one of `folders`. Relative paths start there.
absl::StatusOr<std::string> FindLibrary(const std::string& name,
                                        const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  const fs::path plain = fs::path(name).lexically_normal();
  const bool leaves = !plain.empty() && *plain.begin() == "..";
  if (leaves || (plain.is_absolute() && !LiesBelow(plain, folders))) {
    return LeadsOut(name, folders);
  }
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path found = fs::canonical(fs::path(folder) / plain, error);
    if (error || !fs::is_regular_file(found, error)) continue;
    if (!LiesBelow(found, folders)) return LeadsOut(name, folders);
    return found.native();
  }
  return Unusable("there is no file `", name, "` below a --native-path of the service (",
                  absl::StrJoin(folders, ", "), ")");
}

BulkheadInput MakeInput(const FeatureSignature& input) {
  BulkheadInput made{};
  made.name = input.name.c_str();
  made.dtype = static_cast<int32_t>(input.dtype);
  made.dimensions =
      input.kind == FeatureSignature::Kind::kEncoded ? 0 : static_cast<int32_t>(input.shape.size());
  made.shape = input.shape.data();
  return made;
}

BulkheadOutput MakeOutput(const UserOutput& output) {
  BulkheadOutput made{};
  const bool bytes = output.declared.dtype() == v1::DTYPE_BYTES;
  made.name = output.declared.name().c_str();
  made.dtype = static_cast<int32_t>(output.declared.dtype());
  made.dimensions = bytes ? 0 : static_cast<int32_t>(output.shape.size());
  made.shape = bytes ? nullptr : output.shape.data();
  made.size_bytes = output.max_bytes;
  return made;
}

// One input of a call; its extents are written to `extents`.
BulkheadInput MakeInput(const FeatureSignature& input, const Value& value, int64_t* extents) {
  BulkheadInput made = MakeInput(input);
  ExtentsOf(input, value, extents);
  made.shape = extents;
  if (value.form == Value::Form::kPixels) {
    const MutableImageView& pixels = value.pixels;
    made.data = pixels.row(0);
    made.row_stride_bytes = pixels.stride;
    made.size_bytes =
        made.row_stride_bytes * static_cast<uint64_t>(pixels.height - 1) + pixels.row_bytes();
    return made;
  }
  made.data = value.data;
  made.size_bytes = value.size_bytes;
  const bool rows = made.dimensions > 0 && extents[0] > 0;
  made.row_stride_bytes = rows ? value.size_bytes / static_cast<uint64_t>(extents[0]) : 0;
  return made;
}

// The arguments of a thread's calls; reused from sample to sample.
struct CallBuffers {
  std::vector<BulkheadInput> inputs;
  std::vector<BulkheadOutput> outputs;
  std::vector<int64_t> extents;
};

// `native`: a user's function in a shared library, with the C interface of bulkhead/stage.h. Of
// exceptions that leave the library, std::bad_alloc is thrown on; others become sample errors.
// Libraries stay loaded for the process's life.
class NativeStage final : public SampleStage {
 public:
  NativeStage(const StageSite& site, const v1::Native& spec)
      : SampleStage(site.place),
        spec_(spec),
        values_(UserValues::Of(site, spec.inputs(), spec.outputs())) {}
  ~NativeStage() override {
    if (library_ != nullptr && library_->destroy != nullptr) library_->destroy(state_);
  }

  absl::Status Load(const UserCode& user_code) override {
    absl::Status loaded = Open(user_code);
    if (loaded.ok()) loaded = CreateState();
    return place().Name(loaded);
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    thread_local CallBuffers buffers;
    buffers.inputs.clear();
    buffers.outputs.clear();
    size_t dimensions = 0;
    for (const FeatureSignature& input : values_.inputs) dimensions += input.shape.size();
    buffers.extents.resize(dimensions);
    int64_t* extents = buffers.extents.data();
    for (size_t i = 0; i < values_.inputs.size(); ++i) {
      buffers.inputs.push_back(MakeInput(values_.inputs[i], values[i], extents));
      extents += values_.inputs[i].shape.size();
    }
    auto* const scratch =
        reinterpret_cast<std::byte*>(context.scratch.bytes.Resize(values_.scratch_bytes));
    for (const UserOutput& output : values_.outputs) {
      buffers.outputs.push_back(MakeOutput(output));
      buffers.outputs.back().data = scratch + output.offset;
    }
    SampleRandom random = place().Random(context.key);
    ErrorText error;
    error[0] = 0;
    BulkheadCall call{sizeof(BulkheadCall),   buffers.inputs.data(),
                      buffers.outputs.data(), {random.Next64(), random.Next64()},
                      error.data(),           error.size()};
    int result = 0;
    const auto thrown = ExceptionOf([&] { result = library_->run(state_, &call); });
    if (result == BULKHEAD_NO_MEMORY) throw std::bad_alloc();
    if (thrown.has_value() || result != 0) {
      const std::string what =
          thrown.has_value() ? *thrown : absl::StrCat(TextOf(error), " (", result, ")");
      return place().Name(
          SampleError(reason::kStageFailed, absl::StrCat(spec_.library(), ": ", what)));
    }
    return place().Name(Finish(buffers.outputs.data(), values));
  }

  Effect effect() const override { return Effect::kViews; }

 private:
  absl::Status Open(const UserCode& user_code) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string path,
                              FindLibrary(spec_.library(), user_code.native_paths));
    void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
      const char* const error = dlerror();
      return Unusable("cannot load ", error == nullptr ? path : error);
    }
    const auto function =
        reinterpret_cast<BulkheadStageFunction>(dlsym(opened, BULKHEAD_STAGE_SYMBOL));
    if (function == nullptr) {
      return Unusable(path, " has no function " BULKHEAD_STAGE_SYMBOL
                            ": it is no stage for this version of Bulkhead; see bulkhead/stage.h");
    }
    const BulkheadStage* const table = function();
    if (table == nullptr || table->struct_bytes < sizeof(BulkheadStage) || table->run == nullptr) {
      return Unusable(path, ": its " BULKHEAD_STAGE_SYMBOL
                            " returns a table that is too short or has no `run`");
    }
    library_ = table;
    return absl::OkStatus();
  }

  absl::Status CreateState() {
    if (library_->create == nullptr) return absl::OkStatus();
    const std::map<std::string, std::string> sorted(spec_.arguments().begin(),
                                                    spec_.arguments().end());
    std::vector<BulkheadArgument> arguments;
    for (const auto& [name, value] : sorted) arguments.push_back({name.c_str(), value.c_str()});
    std::vector<BulkheadInput> inputs;
    for (const FeatureSignature& input : values_.inputs) inputs.push_back(MakeInput(input));
    std::vector<BulkheadOutput> outputs;
    for (const UserOutput& output : values_.outputs) outputs.push_back(MakeOutput(output));
    const BulkheadStageConfig config{sizeof(BulkheadStageConfig),
                                     arguments.data(),
                                     arguments.size(),
                                     inputs.data(),
                                     inputs.size(),
                                     outputs.data(),
                                     outputs.size()};
    ErrorText error{};
    const BulkheadStage* const table = std::exchange(library_, nullptr);
    int result = 0;
    const auto thrown =
        ExceptionOf([&] { result = table->create(&config, &state_, error.data(), error.size()); });
    if (thrown.has_value() || result != 0) {
      return Unusable(spec_.library(), ": ", thrown.has_value() ? *thrown : TextOf(error));
    }
    library_ = table;  // only what was made is ended
    return absl::OkStatus();
  }

  absl::Status Finish(const BulkheadOutput* filled, const StageValues& values) const {
    for (size_t i = 0; i < values_.outputs.size(); ++i) {
      const UserOutput& output = values_.outputs[i];
      const int64_t count = filled[i].count;
      if (output.variable && (count < 0 || count > output.shape[0])) {
        return SampleError(
            reason::kOverBound,
            absl::StrCat(spec_.library(), ": output `", output.declared.name(), "` has the count ",
                         count, ", not 0 to max_count, ", output.shape[0]));
      }
      auto* const data = static_cast<std::byte*>(filled[i].data);
      output.Become(data, count, values[values_.inputs.size() + i]);
    }
    return absl::OkStatus();
  }

  const v1::Native spec_;
  const UserValues values_;
  // Set by Load.
  const BulkheadStage* library_ = nullptr;
  void* state_ = nullptr;
};

}  // namespace

std::vector<NumberedMaker> NativeStages() {
  return {{v1::Stage::kNative, Make<NativeStage, &v1::Stage::native>}};
}

}  // namespace bulkhead
