#include "server/worker/worker_sandbox.h"

#include <algorithm>
#include <string>

#include "server/image/imgcodecs_plugin.h"

namespace bulkhead {
namespace {

using Roots = google::protobuf::RepeatedPtrField<std::string>;

// What a worker holds beside data: its socket, and one thing at a time of others.
constexpr uint64_t kOwnFiles = 128;
constexpr uint64_t kLeastFiles = 256;
// That a thread holds open of one source.
constexpr uint64_t kFilesPerSource = 64;

SandboxOptions Options(const internal::v1::Sandbox& wanted) {
  SandboxOptions options;
  options.seccomp = wanted.seccomp();
  options.landlock = wanted.landlock();
  options.capabilities = wanted.capabilities();
  options.readable.assign(wanted.readable().begin(), wanted.readable().end());
  return options;
}

// Lets the data of one source be read. A range has none.
void AddRoots(const v1::Source& source, const Roots& roots, SandboxOptions& options) {
  if (source.has_range()) return;
  options.readable.insert(options.readable.end(), roots.begin(), roots.end());
  // No roots: whatever the user may read.
  if (roots.empty()) options.readable.push_back("/");
}

}  // namespace

SandboxOptions PipelineSandbox(const internal::v1::Bind& bind,
                               const internal::v1::PipelineBinding& binding) {
  SandboxOptions options = Options(bind.sandbox());
  for (const std::string& folder : ImgcodecsPlugin::Folders()) options.readable.push_back(folder);
  const v1::Source& source = binding.source();
  const internal::v1::ResolvedSource& resolved = binding.resolved();
  const int mixed = std::min(source.mixture().sources_size(), resolved.mixed_size());
  for (int i = 0; i < mixed; ++i) {
    AddRoots(source.mixture().sources(i).source(), resolved.mixed(i).roots(), options);
  }
  if (!source.has_mixture()) AddRoots(source, resolved.roots(), options);
  const uint64_t open_files = kFilesPerSource * std::max(1, mixed) * bind.threads();
  options.max_files = std::max(kLeastFiles, kOwnFiles + open_files);
  return options;
}

SandboxOptions IndexSandbox(const internal::v1::BuildIndex& job) {
  SandboxOptions options = Options(job.sandbox());
  // Of any kind of source: later jobs of this worker have the same roots, but other sources.
  options.readable.insert(options.readable.end(), job.roots().begin(), job.roots().end());
  if (job.roots().empty()) options.readable.push_back("/");
  options.max_files = kLeastFiles;
  return options;
}

}  // namespace bulkhead
