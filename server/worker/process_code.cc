#include "server/worker/process_code.h"

#include <utility>

#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/os/process/loaded_libraries.h"

namespace bulkhead {
namespace {

std::vector<std::string> FoldersOf(const UserCode& user_code) {
  std::vector<std::string> folders = user_code.python_paths;
  folders.insert(folders.end(), user_code.native_paths.begin(), user_code.native_paths.end());
  return folders;
}

v1::CodeFile MakeFile(const std::string& name, std::string digest) {
  v1::CodeFile file;
  // The path as it is on the disk; messages hold only UTF-8.
  file.set_name(FirstByteThatIsNoText(name) == absl::string_view::npos ? name : Printable(name));
  file.set_digest(std::move(digest));
  return file;
}

}  // namespace

ProcessCode::ProcessCode(const UserCode& user_code)
    : python_(user_code.python), folders_(FoldersOf(user_code)) {}

std::vector<v1::CodeFile> ProcessCode::TakeNew() {
  std::vector<v1::CodeFile> files;
  absl::MutexLock lock(&mutex_);
  if (python_ != nullptr) {
    for (const PythonHost::LoadedFile& loaded : python_->TakeLoaded()) {
      const std::string name = folders_.NameOf(loaded.path);
      if (!name.empty()) files.push_back(MakeFile(name, CodeDigest(loaded.digest)));
    }
  }
  const uint64_t loads = LibraryLoads();
  if (std::exchange(library_loads_, loads) == loads) return files;
  for (const std::string& path : LoadedLibraries()) {
    const std::string name = folders_.NameOf(path);
    if (name.empty() || !libraries_.insert(path).second) continue;
    files.push_back(MakeFile(name, DigestOfCode(path)));
  }
  return files;
}

}  // namespace bulkhead
