#include "tools/measure/leak_stage.h"

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/spec/signature.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {
namespace {

constexpr char kModule[] = "bulkhead_leak";
// Behind its SIZE and EVERY.
constexpr char kModuleText[] = R"(PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
PAGES = bytes(len(range(0, SIZE, mmap.PAGESIZE)))
kept, calls = [], 0


def is_due():
    global calls
    calls += 1
    return calls % EVERY == 0


def leak(_):
    if is_due():
        kept.append(b'\1' * SIZE)
    return 0


def touch(_):
    if is_due():
        with mmap.mmap(-1, SIZE, flags=PRIVATE) as memory:
            memory[::mmap.PAGESIZE] = PAGES
    return 0
)";

absl::Status WriteModule(const std::string& folder, uint64_t bytes, uint64_t every) {
  std::ofstream module(absl::StrCat(folder, "/", kModule, ".py"));
  module << "import mmap\n\nSIZE, EVERY = " << bytes << ", " << every << "\n" << kModuleText;
  module.close();
  if (!module) return absl::UnavailableError(absl::StrCat(folder, ": cannot be written"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LeakStage> MakeLeakStage(const LeakOptions& options, const std::string& fault) {
  LeakStage leak;
  leak.service_arguments = {"--allow-fault-stages"};
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(options.spec));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(options.leak));
  if (absl::StartsWith(fault, "python")) {
    BULKHEAD_ASSIGN_OR_RETURN(leak.folder, TemporaryFolder::Make("leak"));
    BULKHEAD_RETURN_IF_ERROR(WriteModule(leak.folder.path(), bytes, options.every));
    leak.service_arguments.insert(leak.service_arguments.end(),
                                  {"--python-path", leak.folder.path()});
    BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
    v1::Python& stage = *spec.add_stages()->mutable_python();
    stage.set_function(absl::StrCat(kModule, ":", fault == "python" ? "leak" : "touch"));
    stage.add_inputs(signature.schema.tensors(0).name());
    v1::StageOutput& output = *stage.add_outputs();
    output.set_name("leaked");
    output.set_dtype(v1::DTYPE_INT64);
  } else {
    v1::Fault& stage = *spec.add_stages()->mutable_fault();
    if (fault == "leak") stage.set_leak(options.leak);
    if (fault == "leak_mmap") stage.set_leak_mmap(options.leak);
    if (fault == "touch") stage.set_touch(options.leak);
    if (options.every > 1) stage.set_every(options.every);
  }
  leak.spec = EndlessSpec(std::move(spec), options.spec);
  return leak;
}

}  // namespace bulkhead::tools
