#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead {

// The wanted parts of the sandbox, and what must still work in it.
struct SandboxOptions {
  bool seccomp = true;
  bool landlock = true;
  bool capabilities = true;
  // Paths that may be read besides the system's: files, and folders with their content.
  std::vector<std::string> readable;
  // An existing folder in which this process may write; empty: none. Only Landlock confines writes
  // to it, so with seccomp but without Landlock nothing is writable.
  std::string scratch;
  // It reads object stores: it may open connections, and make sparse files in `scratch`.
  bool fetches = false;
  // Limit of open descriptors.
  uint64_t max_files = 256;
  // Limit of a file's size. If stdout or stderr is a regular file, some more may be appended to it,
  // for last messages; the rest is lost.
  uint64_t max_file_bytes = 0;
};

// The parts in the order of reports; "scratch" only if it was asked for.
inline constexpr const char* kSandboxParts[] = {"no_new_privs", "file-limit", "landlock",
                                                "capabilities", "scratch",    "seccomp"};

// Whether one part is in force.
struct SandboxPart {
  std::string name;  // of kSandboxParts
  bool active = false;
  std::string reason;  // why not, human-readable
};

// Puts this process into its sandbox for good, and reports whether each part is active; a part that
// the system lacks does not affect the others. Besides `readable` it may read what any program
// needs: shared libraries, its own folder, time zones, locales, and the kernel's files about the
// CPUs and the process itself.
//
// Call it while the process has one thread: capabilities and Landlock hold only for that thread and
// those that it starts. With more threads both are reported as not active.
std::vector<SandboxPart> EnterSandbox(const SandboxOptions& options);

}  // namespace bulkhead
