// The wheel's program `bulkhead`: the command, or the service when it is called bulkheadd
// (bulkheadd.cc).
#include <sys/prctl.h>

#include <cstring>

int bulkhead_main(int argc, char** argv);
int bulkheadd_main(int argc, char** argv);

int main(int argc, char** argv) {
  const char* const slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const char* const name = slash != nullptr ? slash + 1 : argc > 0 ? argv[0] : "";
  if (std::strcmp(name, "bulkheadd") != 0) return bulkhead_main(argc, argv);
  prctl(PR_SET_NAME, name);
  return bulkheadd_main(argc, argv);
}
