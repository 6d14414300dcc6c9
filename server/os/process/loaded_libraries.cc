#include "server/os/process/loaded_libraries.h"

#include <link.h>

#include "server/os/files/filesystem.h"

namespace bulkhead {

uint64_t LibraryLoads() {
  uint64_t loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* found) {
        *static_cast<uint64_t*>(found) = library->dlpi_adds;
        return 1;  // every entry has the same count
      },
      &loads);
  return loads;
}

std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* found) {
        static_cast<std::vector<std::string>*>(found)->emplace_back(library->dlpi_name);
        return 0;
      },
      &names);
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (name.find('/') == std::string::npos) continue;  // the program itself, or the kernel's
    if (auto path = RealPath(name); path.ok()) paths.push_back(*std::move(path));
  }
  return paths;
}

}  // namespace bulkhead
