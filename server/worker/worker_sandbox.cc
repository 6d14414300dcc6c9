#include "server/worker/worker_sandbox.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/cache/segment_folder.h"
#include "server/image/codecs/imgcodecs_plugin.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

using Roots = google::protobuf::RepeatedPtrField<std::string>;

// Descriptors besides data: the worker's socket and a few others; and one for each segment of its
// caches, of which it has another for the one that it writes.
constexpr uint64_t kOwnFiles =
    128 + internal::v1::CacheKind_ARRAYSIZE * (2 * SegmentFolder::kManySegments + 1);
// Of a worker that builds indexes, which has no caches.
constexpr uint64_t kIndexFiles = 256;
// Descriptors of the 64 files of one source that a thread holds open; an object has two.
constexpr uint64_t kFilesPerSource = 128;
// An index has a few bytes per record, and 32 KiB per restart point of a compressed file. A larger
// one is an attack, and no disk for caches would hold it.
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 30;

// Limit of one file in a worker's own folder.
constexpr uint64_t kMaxScratchFileBytes = uint64_t{64} << 20;

SandboxOptions Options(const internal::v1::Sandbox& wanted) {
  SandboxOptions options;
  options.seccomp = wanted.seccomp();
  options.landlock = wanted.landlock();
  options.capabilities = wanted.capabilities();
  options.readable.assign(wanted.readable().begin(), wanted.readable().end());
  return options;
}

// Allows reading the data roots. Without roots, allows everything that may hold data and that the
// user may read, but no devices: /dev/zero would give shared memory.
void AddRoots(const Roots& roots, SandboxOptions& options) {
  const bool everywhere = roots.empty() || std::ranges::find(roots, "/") != roots.end();
  if (!everywhere) {
    options.readable.insert(options.readable.end(), roots.begin(), roots.end());
    return;
  }
  for (const std::string& name : NamesIn("/")) {
    if (name != "dev" && name != "proc" && name != "sys") options.readable.push_back("/" + name);
  }
  options.readable.push_back("/dev/shm");
}

// The same for one source of a pipeline. A range has no data itself: its roots are what the
// functions after it may read, and none means nothing.
void AddSource(const v1::Source& source, const Roots& roots, SandboxOptions& options) {
  if (!source.has_range() || !roots.empty()) AddRoots(roots, options);
}

// Makes the worker's own folder, if it was given one, with HOME and TMPDIR in it.
absl::Status MakeScratch(const std::string& folder) {
  if (folder.empty()) return absl::OkStatus();
  absl::Status made = MakeNewDirectory(folder);
  if (made.ok()) made = MakeNewDirectory(folder + "/tmp");
  if (made.ok()) made = MakeNewDirectory(folder + "/home");
  return made;
}

}  // namespace

SandboxOptions PipelineSandbox(const internal::v1::Bind& bind,
                               const internal::v1::PipelineBinding& binding, uint64_t open_files) {
  SandboxOptions options = Options(bind.sandbox());
  for (const std::string& folder : ImgcodecsPlugin::Folders()) options.readable.push_back(folder);
  const v1::Source& source = binding.source();
  const internal::v1::ResolvedSource& resolved = binding.resolved();
  const int mixed = std::min(source.mixture().sources_size(), resolved.mixed_size());
  for (int i = 0; i < mixed; ++i) {
    AddSource(source.mixture().sources(i).source(), resolved.mixed(i).roots(), options);
  }
  if (!source.has_mixture()) AddSource(source, resolved.roots(), options);
  // If more files were open than the limit, no other could be opened.
  const uint64_t of_sources = kFilesPerSource * std::max(1, mixed) * bind.threads();
  options.max_files = kOwnFiles + std::max(of_sources, open_files);
  options.scratch = bind.sandbox().scratch();
  if (!options.scratch.empty()) options.max_file_bytes = kMaxScratchFileBytes;
  return options;
}

std::vector<SandboxPart> EnterPipelineSandbox(const internal::v1::Bind& bind,
                                              const internal::v1::PipelineBinding& binding,
                                              const std::vector<std::string>& code,
                                              uint64_t open_files) {
  SandboxOptions options = PipelineSandbox(bind, binding, open_files);
  options.readable.insert(options.readable.end(), code.begin(), code.end());
  const absl::Status scratch = MakeScratch(options.scratch);
  if (!scratch.ok()) options.scratch.clear();
  if (!options.scratch.empty()) setenv("HOME", (options.scratch + "/home").c_str(), 1);
  std::vector<SandboxPart> parts = EnterSandbox(options);
  if (!scratch.ok()) parts.push_back({"scratch", false, std::string(scratch.message())});
  return parts;
}

SandboxOptions IndexSandbox(const internal::v1::BuildIndex& job) {
  SandboxOptions options = Options(job.sandbox());
  // For sources of any kind: later jobs of this worker have the same roots but other sources.
  AddRoots(job.roots(), options);
  options.max_files = kIndexFiles;
  options.max_file_bytes = kMaxIndexBytes;
  return options;
}

}  // namespace bulkhead
