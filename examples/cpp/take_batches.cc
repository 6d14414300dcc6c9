// Takes all batches of a spec and says what came: a C++ trainer's loop.
//
//   take_batches SPEC [TARGET]        without TARGET a service is started for this process
#include <cstdio>
#include <string>
#include <utility>

#include "bulkhead/loader.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "take_batches: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: take_batches SPEC [TARGET]\n");
    return 2;
  }
  bulkhead::LoaderOptions options;
  options.spec = bulkhead::SpecFile(argv[1]);
  if (argc > 2) options.target = argv[2];
  auto loader = bulkhead::Loader::Open(std::move(options));
  if (!loader.ok()) return Fail(loader.status());
  for (const bulkhead::TensorInfo& tensor : (*loader)->info().tensors) {
    std::printf("output %s\n", tensor.name.c_str());
  }
  std::string cursor;
  for (;;) {
    // Every call has a deadline: nothing hangs in silence.
    auto batch = (*loader)->Next(absl::Seconds(300));
    if (!batch.ok()) return Fail(batch.status());
    if (!batch->has_value()) break;  // the last epoch is delivered
    cursor = (*batch)->cursor();  // goes into the checkpoint; LoaderOptions::cursor goes on from it
  }                               // the batch's memory goes back here
  const bulkhead::LoaderStats stats = (*loader)->stats();
  std::printf("samples %llu\ncursor %s\n", static_cast<unsigned long long>(stats.samples),
              cursor.c_str());
  std::printf("batches %llu, %.3f MB, waited %.3f s, reconnected %llu times\n",
              static_cast<unsigned long long>(stats.batches), 1e-6 * stats.bytes,
              stats.wait_seconds, static_cast<unsigned long long>(stats.reconnects));
  return 0;
}
