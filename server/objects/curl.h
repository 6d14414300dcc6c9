#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/objects/signature_v4.h"
#include "server/objects/store_config.h"

namespace bulkhead {

// The first line and the headers of an answer.
struct HttpHead {
  int code = 0;                                // 0: there was no answer
  std::map<std::string, std::string> headers;  // by lower-case name; of a repeated one the last

  // The header of that lower-case name, or an empty string.
  std::string Header(absl::string_view name) const;
};

// Why an answer is missing or not whole.
enum class HttpFault {
  kNone,
  kName,      // the host has no address
  kConnect,   // no connection
  kTls,       // the host has no certificate that is trusted
  kSlow,      // nothing, or too little, arrived in the time allowed
  kBroken,    // the connection ended early
  kTooLarge,  // headers or body above their bounds
  kRedirect,  // too many, or to another scheme
  kStopped,   // by on_head or on_body
  kOther,
};

struct HttpResponse {
  HttpFault fault = HttpFault::kNone;
  std::string fault_words;  // libcurl's, for people; names host and port at most
  absl::Status stopped;     // what on_head or on_body returned, with kStopped
  HttpHead head;
  std::string body;  // unless on_body got it
};

struct HttpRequest {
  std::string method = "GET";  // GET, HEAD, POST, PUT
  std::string url;             // percent-encoded
  NamedValues headers;
  std::string body;
  // Follows at most 5 redirects, to the same scheme. Without this, or with a header Authorization,
  // a redirect is an answer like any other.
  bool follows_redirects = false;
  bool is_local = false;  // to this machine or its metadata service: never through a proxy
  // The bound of a body that is collected. The body of an error is cut there; one of an answer 2xx
  // that is larger is a fault.
  size_t most_body_bytes = size_t{1} << 20;
  absl::Duration timeout = absl::InfiniteDuration();  // of the whole transfer
  bool is_urgent = false;  // begins before those that wait, unless all connections are taken
  // Called when its turn has come.
  std::function<void()> on_start;
  // Called with the head of an answer 2xx before its body; an error ends the transfer.
  std::function<absl::Status(const HttpHead&)> on_head;
  // Gets the body of an answer 2xx in parts; without it the body is collected.
  std::function<absl::Status(absl::string_view)> on_body;
};

// HTTP/1.1 transfers by libcurl, which this file alone knows. The library is loaded when a client
// is made, so that a host without it runs all else. Of the first transfers kFirstTransfers are
// under way at a time, then one more for each that was answered, up to `limits.connections`: on a
// slow link the first ones come first, where all at once would each come late. Later ones wait for
// their turn.
//
// One thread uses a client. All callbacks are called from Poll. They may call Send and Cancel, not
// Poll. Names of hosts are looked up on a thread that libcurl makes for it. Destruction drops all
// transfers; their callbacks are not called. The process ignores SIGPIPE: libcurl is kept from
// changing how signals are handled.
class HttpClient {
 public:
  using Id = uint64_t;
  using Done = std::function<void(HttpResponse)>;
  static constexpr size_t kFirstTransfers = 8;

  // Of `config` it uses proxies, CA bundle and limits. FAILED_PRECONDITION, PLUGIN_MISSING: libcurl
  // is not installed, or older than 7.66.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(
      const StoreConfig& config,
      const std::vector<std::string>& libraries = {"libcurl.so.4", "libcurl-gnutls.so.4"});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends a request soon; `done` is called once, unless the request is cancelled.
  Id Send(HttpRequest request, Done done);
  // Drops a request, if it is not done yet; none of its callbacks is called from then on.
  void Cancel(Id id);
  // Requests that are not done.
  size_t pending() const;
  // Whether even an urgent request would wait.
  bool is_full() const;

  // Works on the transfers; waits up to `timeout` for something to happen if nothing did. True if
  // the socket `extra_fd` is readable or its peer has closed it. -1: none.
  bool Poll(absl::Duration timeout, int extra_fd);

 private:
  class Library;
  class Transfer;
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);

  void StartWaiting();
  // Moves transfers on; true if one is done.
  bool Perform();

  std::unique_ptr<State> state_;
};

}  // namespace bulkhead
