// The wheel's programs `bulkheadd`, `bulkhead-fetch` and `bulkhead-receive`: each becomes
// `bulkhead` beside it, in the same process, under its own name. main.cc does by that name what the
// program is for. Nothing of the C++ library is in it: that would be ten times its size.
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
    std::fprintf(stderr, "%s: /proc is not mounted, so the program cannot find its own folder\n",
                 argv[0]);
    return 1;
  }
  char name[NAME_MAX + 1];
  std::strncpy(name, slash + 1, NAME_MAX);
  name[NAME_MAX] = 0;
  std::strcpy(slash + 1, "bulkhead");
  argv[0] = name;
  execv(path, argv);
  std::fprintf(stderr, "%s: %s cannot be run: %s\n", name, path, std::strerror(errno));
  return 1;
}
