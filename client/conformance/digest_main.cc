// bulkhead-client-digest: streams a spec with the C++ client and prints what came, as JSON; the
// twin of `python3 -m bulkhead.digest`, so that the conformance suite can hold one to the other.

#include <getopt.h>
#include <openssl/evp.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bulkhead/loader.h"

namespace {

constexpr char kUsage[] =
    "usage: bulkhead-client-digest --spec FILE [--target ADDRESS] [--batches N] [--workers N]\n"
    "  [--threads N] [--cache-dir DIR] [--rank R] [--world-size W] [--cursor JSON] [--name NAME]\n"
    "  [--credit-batches N] [--credit-bytes N] [--timeout SECONDS] [--pause-after N]\n"
    "  [--pause-in-opening] [--error-json] [--reconnect-deadline SECONDS]\n"
    "  [--silence-deadline SECONDS] [--transport auto|shm|grpc]\n"
    "  [--credential FIELD=VALUE …] [--share] [--help]\n";

struct Arguments {
  bulkhead::LoaderOptions loader;
  uint64_t batches = UINT64_MAX;
  uint64_t pause_after = UINT64_MAX;  // then say "paused" and wait for a line
  absl::Duration timeout = absl::Seconds(300);
  bool error_json = false;
  bool help = false;
};

struct Totals {
  uint64_t batches = 0;
  uint64_t samples = 0;
  uint64_t valid = 0;
  uint64_t epochs_ended = 0;
  uint64_t last_samples = 0;
  std::string cursor;
  uint64_t reconnects = 0;
  // Of the loader's reader thread.
  std::atomic<uint64_t> hangs = 0;
  std::vector<std::string> notes;  // read once the loader is gone
  bulkhead::LoaderStats stats;
};

std::string Quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      json += escaped;
    } else {
      json += c;
    }
  }
  return json + '"';
}

template <typename T>
bool ToNumber(const char* text, T* value) {
  return absl::SimpleAtoi(text, value);
}

bool ToTransport(const std::string& text, bulkhead::Transport* transport) {
  using bulkhead::Transport;
  for (const Transport known : {Transport::kAuto, Transport::kShm, Transport::kGrpc}) {
    if (text != bulkhead::TransportName(known)) continue;
    *transport = known;
    return true;
  }
  return false;
}

// "ca=FILE" and so on.
bool TakeCredential(const std::string& text, bulkhead::Credentials& credentials) {
  const std::map<std::string, std::string*> fields = {{"ca", &credentials.ca},
                                                      {"cert", &credentials.cert},
                                                      {"key", &credentials.key},
                                                      {"token_file", &credentials.token_file},
                                                      {"socket_user", &credentials.socket_user}};
  const size_t end = text.find('=');
  const auto field = fields.find(text.substr(0, end));
  if (end == std::string::npos || field == fields.end()) return false;
  *field->second = text.substr(end + 1);
  return true;
}

void Pause() {
  std::cout << "paused" << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

std::function<void(const bulkhead::LoaderProgress&)> PauseOnce() {
  return [paused = false](const bulkhead::LoaderProgress&) mutable {
    if (!std::exchange(paused, true)) Pause();
  };
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  static const option kOptions[] = {{"spec", required_argument, nullptr, 's'},
                                    {"target", required_argument, nullptr, 't'},
                                    {"batches", required_argument, nullptr, 'b'},
                                    {"workers", required_argument, nullptr, 'w'},
                                    {"threads", required_argument, nullptr, 'T'},
                                    {"cache-dir", required_argument, nullptr, 'C'},
                                    {"rank", required_argument, nullptr, 'r'},
                                    {"world-size", required_argument, nullptr, 'W'},
                                    {"cursor", required_argument, nullptr, 'c'},
                                    {"name", required_argument, nullptr, 'n'},
                                    {"credit-batches", required_argument, nullptr, 'B'},
                                    {"credit-bytes", required_argument, nullptr, 'y'},
                                    {"timeout", required_argument, nullptr, 'o'},
                                    {"pause-after", required_argument, nullptr, 'p'},
                                    {"pause-in-opening", no_argument, nullptr, 'O'},
                                    {"reconnect-deadline", required_argument, nullptr, 'R'},
                                    {"silence-deadline", required_argument, nullptr, 'S'},
                                    {"transport", required_argument, nullptr, 'x'},
                                    {"credential", required_argument, nullptr, 'k'},
                                    {"share", no_argument, nullptr, 'a'},
                                    {"error-json", no_argument, nullptr, 'e'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  bulkhead::LoaderOptions& loader = arguments->loader;
  bool ok = true;
  for (int key; (key = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    double seconds = 0;
    switch (key) {
      case 's':
        loader.spec = bulkhead::SpecFile(optarg);
        break;
      case 't':
        loader.target = optarg;
        break;
      case 'b':
        ok = ok && ToNumber(optarg, &arguments->batches);
        break;
      case 'w':
        ok = ok && ToNumber(optarg, &loader.embedded.workers);
        break;
      case 'T':
        ok = ok && ToNumber(optarg, &loader.embedded.threads);
        break;
      case 'C':
        loader.embedded.cache_dir = optarg;
        break;
      case 'r':
        ok = ok && ToNumber(optarg, &loader.rank);
        break;
      case 'W':
        ok = ok && ToNumber(optarg, &loader.world_size);
        break;
      case 'c':
        loader.cursor = optarg;
        break;
      case 'n':
        loader.name = optarg;
        break;
      case 'B':
        ok = ok && ToNumber(optarg, &loader.credit_batches);
        break;
      case 'y':
        ok = ok && ToNumber(optarg, &loader.credit_bytes);
        break;
      case 'o':
        ok = ok && absl::SimpleAtod(optarg, &seconds);
        arguments->timeout = loader.open_deadline = absl::Seconds(seconds);
        break;
      case 'R':
        ok = ok && absl::SimpleAtod(optarg, &seconds);
        loader.reconnect_deadline = absl::Seconds(seconds);
        break;
      case 'S':
        ok = ok && absl::SimpleAtod(optarg, &seconds);
        loader.silence_deadline = absl::Seconds(seconds);
        break;
      case 'x':
        ok = ok && ToTransport(optarg, &loader.transport);
        break;
      case 'k':
        ok = ok && TakeCredential(optarg, loader.credentials);
        break;
      case 'p':
        ok = ok && ToNumber(optarg, &arguments->pause_after);
        break;
      case 'O':
        loader.on_progress = PauseOnce();
        break;
      case 'a':
        loader.share = true;
        break;
      case 'e':
        arguments->error_json = true;
        break;
      case 'h':
        arguments->help = true;
        return true;
      default:
        return false;
    }
  }
  return ok && optind == argc && !loader.spec.path.empty();
}

absl::Status Stream(const Arguments& arguments, EVP_MD_CTX* digest, Totals* totals) {
  bulkhead::LoaderOptions options = arguments.loader;
  options.on_note = [totals](const bulkhead::NoteEvent& event) {
    static const char* const kLevels[] = {"DEBUG ", "INFO ", "WARNING ", "ERROR "};
    // The loader's own, which Python logs beside the lines of stages and the service.
    if (absl::StartsWith(event.text, "the service was lost")) return;
    const std::string stage = event.stage.empty() ? "" : event.stage + ": ";
    totals->notes.push_back(
        absl::StrCat(kLevels[static_cast<int>(event.level)], stage, event.text));
  };
  options.on_hang = [totals](const bulkhead::HangEvent&) { ++totals->hangs; };
  auto loader = bulkhead::Loader::Open(std::move(options));
  if (!loader.ok()) return loader.status();
  while (totals->batches < arguments.batches) {
    if (totals->batches == arguments.pause_after) Pause();
    auto batch = (*loader)->Next(arguments.timeout);
    totals->reconnects = (*loader)->reconnects();
    totals->stats = (*loader)->stats();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) break;
    for (const bulkhead::Tensor& tensor : (*batch)->tensors()) {
      std::vector<char> memory(tensor.normalization == nullptr ? 0
                                                               : bulkhead::NormalizedBytes(tensor));
      const bulkhead::Tensor given = bulkhead::Normalized(tensor, memory.data());
      EVP_DigestUpdate(digest, given.data, given.bytes);
    }
    ++totals->batches;
    totals->samples += (*batch)->sample_count();
    totals->valid += (*batch)->valid_count();
    totals->last_samples = (*batch)->sample_count();
    totals->epochs_ended += (*batch)->last_in_epoch() ? 1 : 0;
    totals->cursor = (*batch)->cursor();
  }
  return absl::OkStatus();
}

std::string Hex(const unsigned char* bytes, unsigned count) {
  std::string hex;
  for (unsigned i = 0; i < count; ++i) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    hex += digits;
  }
  return hex;
}

int Report(const Arguments& arguments, const absl::Status& status, const Totals& totals,
           const std::string& digest) {
  std::string json = absl::StrCat(
      "{\"batches\": ", totals.batches, ", \"samples\": ", totals.samples,
      ", \"valid\": ", totals.valid, ", \"epochs_ended\": ", totals.epochs_ended,
      ", \"last_samples\": ", totals.last_samples,
      ", \"cursor\": ", totals.cursor.empty() ? "null" : totals.cursor,
      ", \"reconnects\": ", totals.reconnects, ", \"hangs\": ", totals.hangs.load(),
      ", \"notes\": [",
      absl::StrJoin(
          totals.notes, ", ",
          [](std::string* out, const std::string& note) { absl::StrAppend(out, Quoted(note)); }),
      "], \"stats\": [", totals.stats.batches, ", ", totals.stats.samples, ", ", totals.stats.bytes,
      "], \"digest\": ", Quoted(digest));
  if (!status.ok() && !arguments.error_json) {
    std::cerr << "bulkhead-client-digest: " << status.message() << " ["
              << bulkhead::ErrorReason(status) << "]\n";
    return 1;
  }
  if (!status.ok()) {
    absl::StrAppend(&json,
                    ", \"error\": {\"code\": ", Quoted(absl::StatusCodeToString(status.code())),
                    ", \"reason\": ", Quoted(bulkhead::ErrorReason(status)),
                    ", \"message\": ", Quoted(std::string(status.message())), ", \"metadata\": {");
    const char* separator = "";
    for (const auto& [key, value] : bulkhead::ErrorMetadata(status)) {
      absl::StrAppend(&json, separator, Quoted(key), ": ", Quoted(value));
      separator = ", ";
    }
    json += "}}";
  }
  std::cout << json << "}" << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::cerr << kUsage;
    return 2;
  }
  if (arguments.help) {
    std::cout << kUsage;
    return 0;
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  Totals totals;
  const absl::Status status = Stream(arguments, context.get(), &totals);
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), hash, &size);
  return Report(arguments, status, totals, Hex(hash, size));
}
