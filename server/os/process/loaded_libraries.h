#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead {

// How often this process has loaded a shared library. Cheap.
uint64_t LibraryLoads();

// Paths of the shared libraries loaded in this process, with links resolved.
std::vector<std::string> LoadedLibraries();

}  // namespace bulkhead
