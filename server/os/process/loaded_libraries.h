#ifndef BULKHEAD_SERVER_OS_PROCESS_LOADED_LIBRARIES_H_
#define BULKHEAD_SERVER_OS_PROCESS_LOADED_LIBRARIES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead {

// How often this process has loaded a shared library. Cheap.
uint64_t LibraryLoads();

// Paths of the shared libraries loaded in this process, with links resolved.
std::vector<std::string> LoadedLibraries();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_LOADED_LIBRARIES_H_
