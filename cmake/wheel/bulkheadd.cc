// The wheel's program `bulkheadd`: becomes the service that is in `bulkhead` beside it (main.cc),
// in the same process.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

int main(int, char** argv) {
  char path[PATH_MAX + sizeof("bulkhead")];
  const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  path[length > 0 ? length : 0] = 0;
  char* const slash = std::strrchr(path, '/');
  if (slash == nullptr) {
    std::fprintf(stderr,
                 "bulkheadd: /proc is not mounted, so the program cannot find its own folder\n");
    return 1;
  }
  std::strcpy(slash + 1, "bulkhead");
  char name[] = "bulkheadd";
  argv[0] = name;
  execv(path, argv);
  std::fprintf(stderr, "bulkheadd: %s cannot be run: %s\n", path, std::strerror(errno));
  return 1;
}
