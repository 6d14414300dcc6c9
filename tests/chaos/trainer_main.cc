// bulkhead-chaos-trainer: a C++ trainer for tests/chaos. Prints one line of JSON for each batch
// that it has consumed, holds a few batches as training code does, and checks their bytes again
// when it drops them. The twin of trainer.py.
//
//   bulkhead-chaos-trainer SPEC TARGET NAME BATCHES TRANSPORT PAUSE_MS [CURSOR]

#include <openssl/evp.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bulkhead/loader.h"

namespace {

std::string Digest(const bulkhead::Batch& batch) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  for (const bulkhead::Tensor& tensor : batch.tensors()) {
    EVP_DigestUpdate(context, tensor.data, tensor.bytes);
  }
  EVP_DigestFinal_ex(context, hash, &size);
  EVP_MD_CTX_free(context);
  std::string hex;
  for (unsigned i = 0; i < 8; ++i) absl::StrAppend(&hex, absl::Hex(hash[i], absl::kZeroPad2));
  return hex;
}

struct Held {
  bulkhead::Batch batch;
  std::string digest;
};

void DropOldest(std::deque<Held>& held) {
  if (Digest(held.front().batch) != held.front().digest) {
    std::cout << "{\"changed\": " << held.front().batch.sequence() << "}" << std::endl;
  }
  held.pop_front();
}

int Train(const bulkhead::LoaderOptions& options, uint64_t batches, int pause_ms) {
  auto loader = bulkhead::Loader::Open(options);
  absl::Status status = loader.status();
  std::deque<Held> held;
  for (uint64_t count = 0; status.ok() && count < batches; ++count) {
    auto batch = (*loader)->Next(absl::Seconds(120));
    if (!batch.ok()) {
      status = batch.status();
      break;
    }
    if (!batch->has_value()) break;
    held.push_back({**std::move(batch), ""});
    const bulkhead::Batch& newest = held.back().batch;
    held.back().digest = Digest(newest);
    std::cout << "{\"epoch\": " << newest.epoch() << ", \"first\": " << newest.first_position()
              << ", \"valid\": " << newest.valid_count() << ", \"digest\": \"" << held.back().digest
              << "\", \"cursor\": " << newest.cursor() << ", \"transport\": \""
              << bulkhead::TransportName((*loader)->transport())
              << "\", \"reconnects\": " << (*loader)->reconnects() << "}" << std::endl;
    // Zero to two batches stay, by turns.
    while (held.size() > count % 3) DropOldest(held);
    if (pause_ms > 0) usleep(static_cast<useconds_t>(pause_ms) * 1000);
  }
  while (!held.empty()) DropOldest(held);
  if (status.ok()) return 0;
  std::cout << "{\"error\": \"" << bulkhead::ErrorReason(status) << "\"}" << std::endl;
  std::cerr << "bulkhead-chaos-trainer: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  bulkhead::LoaderOptions options;
  options.spec = bulkhead::SpecFile(argv[1]);
  options.target = argv[2];
  options.name = argv[3];
  const std::string transport = argv[5];
  options.transport = transport == "shm" ? bulkhead::Transport::kShm : bulkhead::Transport::kGrpc;
  if (argc > 7) options.cursor = argv[7];
  return Train(options, std::strtoull(argv[4], nullptr, 10), std::atoi(argv[6]));
}
