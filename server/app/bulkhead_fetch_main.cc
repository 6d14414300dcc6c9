// bulkhead-fetch: started by bulkheadd with its end of a socketpair; never by hand.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "server/base/read_fault.h"
#include "server/fetch/fetch_process.h"

int main(int argc, char** argv) {
  constexpr char kFlag[] = "--control-fd=";
  const bool understood = argc == 2 && std::strncmp(argv[1], kFlag, sizeof(kFlag) - 1) == 0;
  const int fd = understood ? std::atoi(argv[1] + sizeof(kFlag) - 1) : -1;
  if (fd < 0) {
    std::fprintf(stderr, "bulkhead-fetch is started by bulkheadd, not by hand.\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  bulkhead::CatchReadFaults();
  return bulkhead::RunFetchProcess(bulkhead::PacketSocket(bulkhead::UniqueFd(fd)));
}
