// The wheel's program `bulkhead`: the command, or what run_bulkhead.cc names: the service, or what
// reads object stores for it.
#include <sys/prctl.h>

#include <cstring>

int bulkhead_main(int argc, char** argv);
int bulkheadd_main(int argc, char** argv);
int bulkhead_fetch_main(int argc, char** argv);

int main(int argc, char** argv) {
  const char* const slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const char* const name = slash != nullptr ? slash + 1 : argc > 0 ? argv[0] : "";
  const bool is_service = std::strcmp(name, "bulkheadd") == 0;
  const bool is_fetch = std::strcmp(name, "bulkhead-fetch") == 0;
  if (is_service || is_fetch) prctl(PR_SET_NAME, name);
  if (is_service) return bulkheadd_main(argc, argv);
  if (is_fetch) return bulkhead_fetch_main(argc, argv);
  return bulkhead_main(argc, argv);
}
