#include "tools/measure/leak_stage.h"

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/spec/signature.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/longer_spec.h"

namespace bulkhead::tools {
namespace {

constexpr char kModule[] = "bulkhead_leak";

void SetFault(const LeakStage::Options& options, v1::Fault& stage) {
  if (options.fault == "leak") stage.set_leak(options.bytes);
  if (options.fault == "leak_mmap") stage.set_leak_mmap(options.bytes);
  if (options.fault == "touch") stage.set_touch(options.bytes);
  if (options.every > 1) stage.set_every(options.every);
}

}  // namespace

absl::StatusOr<LeakStage> LeakStage::Create(const Options& options) {
  LeakStage leak;
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(options.spec));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(options.bytes));
  if (absl::StartsWith(options.fault, "python")) {
    BULKHEAD_RETURN_IF_ERROR(leak.WriteModule(bytes, options.every));
    BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
    v1::Python& stage = *spec.add_stages()->mutable_python();
    stage.set_function(absl::StrCat(kModule, ":", options.fault == "python" ? "leak" : "touch"));
    stage.add_inputs(signature.schema.tensors(0).name());
    v1::StageOutput& output = *stage.add_outputs();
    output.set_name("leaked");
    output.set_dtype(v1::DTYPE_INT64);
  } else {
    SetFault(options, *spec.add_stages()->mutable_fault());
  }
  leak.spec_ = EndlessSpec(std::move(spec), options.spec);
  return leak;
}

absl::Status LeakStage::WriteModule(uint64_t bytes, uint64_t every) {
  BULKHEAD_ASSIGN_OR_RETURN(folder_, TemporaryFolder::Make("leak"));
  std::ofstream module(absl::StrCat(folder_.path(), "/", kModule, ".py"));
  module << "import mmap\n\n"
         << "SIZE, EVERY = " << bytes << ", " << every << "\n"
         << "PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n"
         << "PAGES = bytes(len(range(0, SIZE, mmap.PAGESIZE)))\n"
         << "kept, calls = [], 0\n\n\n"
         << "def is_due():\n"
         << "    global calls\n"
         << "    calls += 1\n"
         << "    return calls % EVERY == 0\n\n\n"
         << "def leak(_):\n"
         << "    if is_due():\n"
         << "        kept.append(b'\\1' * SIZE)\n"
         << "    return 0\n\n\n"
         << "def touch(_):\n"
         << "    if is_due():\n"
         << "        with mmap.mmap(-1, SIZE, flags=PRIVATE) as memory:\n"
         << "            memory[::mmap.PAGESIZE] = PAGES\n"
         << "    return 0\n";
  module.close();
  if (!module) return absl::UnavailableError(absl::StrCat(folder_.path(), ": cannot be written"));
  return absl::OkStatus();
}

std::vector<std::string> LeakStage::service_arguments() const {
  std::vector<std::string> arguments = {"--allow-fault-stages"};
  const std::string& folder = folder_.path();
  if (!folder.empty()) arguments.insert(arguments.end(), {"--python-path", folder});
  return arguments;
}

}  // namespace bulkhead::tools
