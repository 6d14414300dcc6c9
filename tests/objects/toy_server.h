#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/paths/percent_encoding.h"
#include "server/objects/curl.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/pipe.h"

namespace bulkhead {

// toy_server.py as a child process, which ends with this object.
class ToyServer {
 public:
  // With `certificate`, a file with a key and its certificate, for https.
  explicit ToyServer(const std::string& certificate = "") {
    Pipe output = *Pipe::Make();
    SpawnSpec spec;
    spec.program = "/usr/bin/python3";
    spec.args = {absl::StrCat(std::getenv("BULKHEAD_SOURCE_DIR"), "/tests/objects/toy_server.py")};
    if (!certificate.empty()) spec.args.push_back(certificate);
    spec.output_fd = output.writing.get();
    child_.emplace(*ChildProcess::Spawn(spec));
    output.writing.reset();
    std::string said;
    while (said.find('\n') == said.npos) {
      pollfd wait{output.reading.get(), POLLIN, 0};
      if (poll(&wait, 1, 20'000) != 1) break;
      const size_t before = said.size();
      ReadAvailable(output.reading.get(), 4096, said);
      if (said.size() == before) break;
    }
    EXPECT_GT(said.size(), 1u) << "toy_server.py does not start";
    url_ = absl::StrCat(certificate.empty() ? "http" : "https",
                        "://127.0.0.1:", said.substr(0, said.find('\n')));
    StoreConfig config;
    config.ca_bundle = certificate;
    client_ = *HttpClient::Create(config);
  }
  ~ToyServer() {
    child_->Signal(SIGKILL);
    pollfd wait{child_->pidfd(), POLLIN, 0};
    poll(&wait, 1, 20'000);
    child_->TryReap();
  }

  // "http://127.0.0.1:PORT", or with https
  const std::string& url() const { return url_; }
  // Stores an object: path "/bucket/key".
  void Put(const std::string& path, const std::string& body) {
    Ask("PUT", "/_object" + PercentEncoded(path, "/"), body);
  }
  // What another service answers at a path.
  void Answer(const std::string& path, const std::string& body) {
    Ask("PUT", "/_answer" + path, body);
  }
  // Faults, in JSON, of the next requests for a bucket; without one, for any that was given none. A
  // request that was dropped may reach the server later, so that tests have buckets of their own.
  void Fail(const std::string& faults, const std::string& bucket = "") {
    Ask("PUT", "/_faults/" + bucket, faults);
  }
  // All requests but those of this object.
  std::vector<std::string> Log() {
    return absl::StrSplit(Ask("GET", "/_log", ""), '\n', absl::SkipEmpty());
  }

 private:
  std::string Ask(const std::string& method, const std::string& path, const std::string& body) {
    HttpRequest request;
    request.method = method;
    request.url = url_ + path;
    request.body = body;
    request.most_body_bytes = size_t{64} << 20;
    std::optional<HttpResponse> got;
    client_->Send(std::move(request), [&](HttpResponse response) { got = std::move(response); });
    while (!got.has_value()) client_->Poll(absl::Seconds(10), -1);
    EXPECT_EQ(got->head.code, 200) << got->fault_words;
    return got->body;
  }

  std::optional<ChildProcess> child_;
  std::string url_;
  std::unique_ptr<HttpClient> client_;
};

}  // namespace bulkhead
