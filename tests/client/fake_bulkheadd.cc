// The fake service as a program, with the flags of an embedded one; its log is an empty file. The
// cache folder "refuse" makes it fail, "never-ready" makes it wait.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "tests/client/fake_service.h"

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--embedded") == 0) continue;
    if (i + 1 == argc) return 2;
    flags[argv[i]] = argv[i + 1];
    ++i;
  }
  if (const std::string& log = flags["--log-file"]; !log.empty()) {
    if (FILE* file = fopen(log.c_str(), "a")) fclose(file);
  }
  const std::string cache = flags["--cache-dir"].substr(flags["--cache-dir"].rfind('/') + 1);
  if (cache == "refuse") {
    fputs("cannot use the cache folder 'refuse'\n", stderr);
    return 1;
  }
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  int signal = 0;
  if (cache == "never-ready") {
    sigwait(&term, &signal);
    return 0;
  }
  bulkhead::FakeService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(flags["--listen"], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  const std::string ready = "ready " + flags["--listen"] + "\n";
  if (write(atoi(flags["--ready-fd"].c_str()), ready.data(), ready.size()) < 0) return 1;
  sigwait(&term, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}
