// The wheel's programs `bulkheadd` and `bulkhead-fetch`: each becomes `bulkhead` beside it, in the
// same process, under its own name. main.cc does by that name what the program is for.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

int main(int, char** argv) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string self(path, length > 0 ? static_cast<size_t>(length) : 0);
  const size_t slash = self.rfind('/');
  if (slash == self.npos) {
    std::fprintf(stderr, "%s: /proc is not mounted, so the program cannot find its own folder\n",
                 argv[0]);
    return 1;
  }
  std::string name = self.substr(slash + 1);
  const std::string program = self.substr(0, slash + 1) + "bulkhead";
  argv[0] = name.data();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "%s: %s cannot be run: %s\n", name.c_str(), program.c_str(),
               std::strerror(errno));
  return 1;
}
