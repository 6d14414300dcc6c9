// The wheel's program `bulkhead`: the command, or what run_bulkhead.cc names: the service, what
// reads object stores for it, or what receives batches for a trainer.
#include <sys/prctl.h>

#include <cstring>

int bulkhead_main(int argc, char** argv);
int bulkheadd_main(int argc, char** argv);
int bulkhead_fetch_main(int argc, char** argv);
int bulkhead_receive_main(int argc, char** argv);

namespace {

struct Program {
  const char* name;
  int (*main)(int argc, char** argv);
};
constexpr Program kPrograms[] = {{"bulkheadd", bulkheadd_main},
                                 {"bulkhead-fetch", bulkhead_fetch_main},
                                 {"bulkhead-receive", bulkhead_receive_main}};

}  // namespace

int main(int argc, char** argv) {
  const char* const slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const char* const name = slash != nullptr ? slash + 1 : argc > 0 ? argv[0] : "";
  for (const Program& program : kPrograms) {
    if (std::strcmp(name, program.name) != 0) continue;
    prctl(PR_SET_NAME, name);
    return program.main(argc, argv);
  }
  return bulkhead_main(argc, argv);
}
