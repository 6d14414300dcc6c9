#include "tools/local/local_objects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/user_folders.h"
#include "server/spec/record_files.h"

namespace bulkhead::tools {

std::vector<std::string> UrlsOf(const v1::PipelineSpec& spec) {
  std::vector<std::string> urls;
  const auto add = [&](const v1::Source& source) {
    std::vector<std::string> named = {
        source.image_folder().path(), source.image_folder().classes_file(),
        source.image_list().path(), source.image_list().classes_file()};
    for (const std::string& entry : source.image_list().entries()) named.push_back(entry);
    if (HasRecordFiles(source)) {
      for (const std::string& pattern : *RecordFilesOf(source).files) named.push_back(pattern);
    }
    for (std::string& name : named) {
      if (IsObjectUrl(name)) urls.push_back(std::move(name));
    }
  };
  add(spec.source());
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) add(mixed.source());
  return urls;
}

absl::StatusOr<std::unique_ptr<ObjectFetcher>> MakeLocalObjects() {
  BULKHEAD_ASSIGN_OR_RETURN(std::string folder, UserCacheFolder());
  absl::Status usable = MakeDirectories(folder);
  if (usable.ok()) usable = TakeOwnFolder(folder);
  if (!usable.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the cache folder ", folder, " cannot be used: ", std::string(usable.message()),
        "; set XDG_CACHE_HOME to another"));
  }
  BULKHEAD_ASSIGN_OR_RETURN(folder, RealPath(folder));
  ObjectFetcher::Config config;
  BULKHEAD_ASSIGN_OR_RETURN(const std::string self, ProgramPath());
  config.program = absl::StrCat(self.substr(0, self.rfind('/')), "/bulkhead-fetch");
  config.folder = folder + "/objects";
  config.cache_bytes = IsInMemory(folder) ? 0 : UsualCacheBytes(folder);
  config.sandbox.set_seccomp(true);
  config.sandbox.set_landlock(true);
  config.sandbox.set_capabilities(true);
  return std::make_unique<ObjectFetcher>(std::move(config));
}

}  // namespace bulkhead::tools
