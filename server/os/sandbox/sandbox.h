#ifndef BULKHEAD_SERVER_OS_SANDBOX_SANDBOX_H_
#define BULKHEAD_SERVER_OS_SANDBOX_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead {

// Which parts of the sandbox are wanted, and what must still work in it.
struct SandboxOptions {
  bool seccomp = true;
  bool landlock = true;
  bool capabilities = true;
  // What is read beside the system's own: folders with all that is beneath them, and files.
  std::vector<std::string> readable;
  // An existing folder in which this process may write; empty: none. Only Landlock
  // holds writes to it, so that without Landlock, where seccomp is wanted, nothing is writable.
  std::string scratch;
  // Descriptors that the process may hold.
  uint64_t max_files = 256;
  // How far it may write into a file. Where it writes its log (stdout, stderr) to a regular file,
  // it may add some to what is there, for its last words; beyond that they are lost.
  uint64_t max_file_bytes = 0;
};

// The parts, in the order in which they are reported; "scratch" where one was asked for.
inline constexpr const char* kSandboxParts[] = {"no_new_privs", "file-limit", "landlock",
                                                "capabilities", "scratch",    "seccomp"};

// Whether one part is in force.
struct SandboxPart {
  std::string name;  // of kSandboxParts
  bool active = false;
  std::string reason;  // why it is not, for people
};

// Puts this process in its sandbox for the rest of its life, and reports for every part whether it
// is active: a part that the system does not have leaves the others in force. Beside `readable` it
// may read what any program needs to run: the shared libraries, its own folder, time zones and
// locales, and what the kernel says of the CPUs and of itself.
//
// To be called while the process has one thread: capabilities and Landlock hold for that thread and
// those that it starts, and are not in force for any other. With more threads both are reported as
// not active.
std::vector<SandboxPart> EnterSandbox(const SandboxOptions& options);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_SANDBOX_SANDBOX_H_
