#include "server/objects/curl.h"

#define CURL_DISABLE_DEPRECATION  // CURLOPT_PROTOCOLS has a successor that Debian 11's libcurl
                                  // lacks
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/version.h"

namespace bulkhead {
namespace {

constexpr size_t kMostHeadBytes = size_t{64} << 10;
constexpr long kMostRedirects = 5;
constexpr long kReadBufferBytes = 256L << 10;

absl::Status NoLibcurl(absl::string_view why) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kPluginMissing,
      absl::StrCat("objects of stores (s3://, gs://, https://) are read with libcurl, ", why,
                   "; install Debian's package libcurl4"));
}

HttpFault FaultOf(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpFault::kNone;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return HttpFault::kName;
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:  // often a connection that ended in the handshake
      return HttpFault::kConnect;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFault::kTls;
    case CURLE_OPERATION_TIMEDOUT:
      return HttpFault::kSlow;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
      return HttpFault::kBroken;
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return HttpFault::kRedirect;
    default:
      return HttpFault::kOther;
  }
}

long Milliseconds(absl::Duration duration) {
  constexpr absl::Duration kMost = absl::Hours(24);
  return static_cast<long>(absl::ToInt64Milliseconds(
      absl::Ceil(std::clamp(duration, absl::ZeroDuration(), kMost), absl::Milliseconds(1))));
}

bool IsSecureUrl(absl::string_view url) { return absl::StartsWithIgnoreCase(url, "https:"); }

}  // namespace

std::string HttpHead::Header(absl::string_view name) const {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? "" : found->second;
}

// libcurl's functions. It is never unloaded, since threads of its own may still run.
class HttpClient::Library {
 public:
  static absl::StatusOr<Library> Load(const std::vector<std::string>& names) {
    void* handle = nullptr;
    for (const std::string& name : names) {
      if (handle == nullptr) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) {
      return NoLibcurl(absl::StrCat("and neither ", absl::StrJoin(names, " nor "), " is here"));
    }
    const Library library(handle);
    if (!library.has_all_) return NoLibcurl("and the one that is here is older than 7.66");
    if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      return NoLibcurl("and the one that is here does not start");
    }
    return library;
  }

 private:
  // A function, as the type that it is assigned to.
  struct Found {
    void* address;
    template <typename Function>
    operator Function() const {
      return reinterpret_cast<Function>(address);
    }
  };
  explicit Library(void* handle) : handle_(handle) {}
  Found Find(const char* name) {
    void* const address = dlsym(handle_, name);
    has_all_ = has_all_ && address != nullptr;
    return {address};
  }

  void* handle_;
  bool has_all_ = true;  // before the functions, which are found after it

 public:
  decltype(&::curl_global_init) global_init = Find("curl_global_init");
  decltype(&::curl_easy_init) easy_init = Find("curl_easy_init");
  decltype(&::curl_easy_cleanup) easy_cleanup = Find("curl_easy_cleanup");
  decltype(&::curl_easy_setopt) easy_set = Find("curl_easy_setopt");
  decltype(&::curl_easy_strerror) easy_words = Find("curl_easy_strerror");
  decltype(&::curl_multi_init) multi_init = Find("curl_multi_init");
  decltype(&::curl_multi_cleanup) multi_cleanup = Find("curl_multi_cleanup");
  decltype(&::curl_multi_setopt) multi_set = Find("curl_multi_setopt");
  decltype(&::curl_multi_add_handle) multi_add = Find("curl_multi_add_handle");
  decltype(&::curl_multi_remove_handle) multi_remove = Find("curl_multi_remove_handle");
  decltype(&::curl_multi_perform) multi_perform = Find("curl_multi_perform");
  decltype(&::curl_multi_info_read) multi_read = Find("curl_multi_info_read");
  decltype(&::curl_multi_poll) multi_poll = Find("curl_multi_poll");
  decltype(&::curl_slist_append) list_append = Find("curl_slist_append");
  decltype(&::curl_slist_free_all) list_free = Find("curl_slist_free_all");
};

// One request, from Send until it is done or cancelled.
class HttpClient::Transfer {
 public:
  Transfer(const Library& library, HttpRequest request, Done done)
      : library_(library), request_(std::move(request)), done_(std::move(done)) {}
  ~Transfer() {
    if (easy_ != nullptr) library_.easy_cleanup(easy_);
    library_.list_free(list_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The handle, ready to be added.
  CURL* Start(const StoreConfig& config) {
    easy_ = library_.easy_init();
    SetConnection(config);
    SetRequest();
    Set(CURLOPT_ERRORBUFFER, words_);
    Set(CURLOPT_HEADERFUNCTION, &Transfer::OnHeaderLine);
    Set(CURLOPT_HEADERDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &Transfer::OnBodyPart);
    Set(CURLOPT_WRITEDATA, this);
    if (request_.on_start != nullptr) request_.on_start();
    return easy_;
  }
  // With other than an error of the server.
  bool was_answered() const {
    const int code = response_.head.code;
    return code >= 200 && code < 500 && code != 429;
  }
  CURL* easy() const { return easy_; }

  void Finish(CURLcode code) {
    if (response_.fault == HttpFault::kNone) response_.fault = FaultOf(code);
    if (response_.fault != HttpFault::kNone && response_.fault_words.empty()) {
      response_.fault_words = Printable(words_[0] != '\0' ? words_ : library_.easy_words(code));
    }
    done_(std::move(response_));
  }

  // From now on no callback is called.
  void Silence() { is_silent_ = true; }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    library_.easy_set(easy_, option, value);
  }

  void SetConnection(const StoreConfig& config) {
    const StoreLimits& limits = config.limits;
    const bool is_secure = IsSecureUrl(request_.url);
    const long scheme = is_secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP;
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_QUICK_EXIT, 1L);     // an abandoned look-up of a name does not hold this thread
    Set(CURLOPT_PROTOCOLS, scheme);  // of redirects too
    Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Set(CURLOPT_BUFFERSIZE, kReadBufferBytes);
    Set(CURLOPT_TCP_KEEPALIVE, 1L);
    Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    Set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(limits.connect_timeout));
    Set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(limits.slow_bytes_per_second));
    Set(CURLOPT_LOW_SPEED_TIME,
        std::max(1L, static_cast<long>(absl::ToInt64Seconds(limits.slow_for))));
    if (request_.timeout < absl::InfiniteDuration()) {
      Set(CURLOPT_TIMEOUT_MS, Milliseconds(request_.timeout));
    }
    if (!config.ca_bundle.empty()) Set(CURLOPT_CAINFO, config.ca_bundle.c_str());
    // An empty one keeps libcurl from looking for variables itself.
    const std::string& proxy = is_secure ? config.proxy.https : config.proxy.http;
    Set(CURLOPT_PROXY, request_.is_local ? "" : proxy.c_str());
    Set(CURLOPT_NOPROXY, config.proxy.none_for.c_str());
  }

  void SetRequest() {
    Set(CURLOPT_URL, request_.url.c_str());
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_USERAGENT, absl::StrCat("bulkhead/", kVersion).c_str());
    if (request_.method == "HEAD") {
      Set(CURLOPT_NOBODY, 1L);
    } else if (request_.method != "GET") {
      Set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request_.body.size()));
      Set(CURLOPT_POSTFIELDS, request_.body.c_str());
      Set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    }
    bool is_signed = false;
    for (const auto& [name, value] : request_.headers) {
      is_signed = is_signed || absl::EqualsIgnoreCase(name, "authorization");
      // libcurl makes Host of the URL, and removes a header that ends with ':'.
      if (absl::EqualsIgnoreCase(name, "host")) continue;
      Append(value.empty() ? absl::StrCat(name, ";") : absl::StrCat(name, ": ", value));
    }
    Append("Expect:");
    Set(CURLOPT_HTTPHEADER, list_);
    follows_redirects_ = request_.follows_redirects && !is_signed;
    Set(CURLOPT_FOLLOWLOCATION, follows_redirects_ ? 1L : 0L);
    Set(CURLOPT_MAXREDIRS, kMostRedirects);
  }

  void Append(const std::string& line) {
    if (curl_slist* const longer = library_.list_append(list_, line.c_str())) list_ = longer;
  }

  static size_t OnHeaderLine(char* data, size_t one, size_t bytes, void* transfer) {
    return static_cast<Transfer*>(transfer)->TakeHeaderLine({data, bytes}) ? bytes : 0;
  }

  static size_t OnBodyPart(char* data, size_t one, size_t bytes, void* transfer) {
    return static_cast<Transfer*>(transfer)->TakeBody({data, bytes}) ? bytes : 0;
  }

  bool TakeHeaderLine(absl::string_view line) {
    if (is_silent_) return false;
    head_bytes_ += line.size();
    if (head_bytes_ > kMostHeadBytes) {
      return Stop(HttpFault::kTooLarge, "the headers of the answer have more than 64 KiB");
    }
    line = absl::StripAsciiWhitespace(line);
    HttpHead& head = response_.head;
    if (absl::StartsWith(line, "HTTP/")) {
      head = HttpHead{};
      is_head_whole_ = false;
      const absl::string_view rest = line.substr(std::min(line.find(' '), line.size()));
      if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(rest).substr(0, 3), &head.code)) {
        head.code = 0;
      }
      return true;
    }
    if (is_head_whole_) return true;  // a trailer
    if (line.empty()) return EndHead();
    const size_t colon = line.find(':');
    if (colon == line.npos) return true;
    head.headers[absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, colon)))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    return true;
  }

  bool EndHead() {
    if (response_.head.code < 200) return true;  // another one follows
    is_head_whole_ = true;
    if (!is_success() || request_.on_head == nullptr) return true;
    return Continue(request_.on_head(response_.head));
  }

  bool TakeBody(absl::string_view part) {
    if (is_silent_) return false;
    const bool is_redirect = follows_redirects_ && response_.head.code / 100 == 3 &&
                             !response_.head.Header("location").empty();
    if (is_redirect) return true;
    if (is_success() && request_.on_body != nullptr) return Continue(request_.on_body(part));
    const size_t room = request_.most_body_bytes - response_.body.size();
    if (part.size() > room && is_success()) {
      return Stop(HttpFault::kTooLarge,
                  absl::StrCat("the answer has more than ", request_.most_body_bytes, " bytes"));
    }
    absl::StrAppend(&response_.body, part.substr(0, room));
    return true;
  }

  bool is_success() const { return response_.head.code / 100 == 2; }

  bool Continue(absl::Status status) {
    if (is_silent_) return false;  // cancelled by the callback
    if (status.ok()) return true;
    response_.stopped = std::move(status);
    return Stop(HttpFault::kStopped, "stopped");
  }

  bool Stop(HttpFault fault, std::string words) {
    response_.fault = fault;
    response_.fault_words = std::move(words);
    return false;
  }

  const Library& library_;
  HttpRequest request_;
  Done done_;
  CURL* easy_ = nullptr;  // null: waits for its turn
  curl_slist* list_ = nullptr;
  char words_[CURL_ERROR_SIZE] = "";
  HttpResponse response_;
  size_t head_bytes_ = 0;
  bool is_head_whole_ = false;
  bool follows_redirects_ = false;
  bool is_silent_ = false;
};

struct HttpClient::State {
  const Library library;
  StoreConfig config;
  CURLM* multi = nullptr;
  Id next_id = 1;
  std::map<Id, std::unique_ptr<Transfer>> transfers;
  std::deque<Id> waiting;          // may name some that were cancelled
  std::deque<Id> urgent;           // likewise
  size_t turns = kFirstTransfers;  // of those that are not urgent
  std::map<CURL*, Id> running;
  bool is_performing = false;
  std::vector<Id> cancelled;  // while performing; libcurl does not let them go before its end
};

HttpClient::HttpClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(
    const StoreConfig& config, const std::vector<std::string>& libraries) {
  BULKHEAD_ASSIGN_OR_RETURN(const Library library, Library::Load(libraries));
  std::unique_ptr<State> state(new State{library, config, library.multi_init()});
  if (state->multi == nullptr) return NoLibcurl("and the one that is here does not start");
  library.multi_set(state->multi, CURLMOPT_MAXCONNECTS,
                    static_cast<long>(config.limits.connections));
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(state)));
}

HttpClient::~HttpClient() {
  for (const auto& [easy, id] : state_->running) {
    state_->transfers[id]->Silence();
    state_->library.multi_remove(state_->multi, easy);
  }
  state_->transfers.clear();
  state_->library.multi_cleanup(state_->multi);
}

size_t HttpClient::pending() const { return state_->transfers.size(); }

bool HttpClient::is_full() const {
  return state_->running.size() >= state_->config.limits.connections;
}

HttpClient::Id HttpClient::Send(HttpRequest request, Done done) {
  const Id id = state_->next_id++;
  (request.is_urgent ? state_->urgent : state_->waiting).push_back(id);
  state_->transfers[id] =
      std::make_unique<Transfer>(state_->library, std::move(request), std::move(done));
  return id;
}

void HttpClient::Cancel(Id id) {
  const auto found = state_->transfers.find(id);
  if (found == state_->transfers.end()) return;
  found->second->Silence();
  if (state_->is_performing) {
    state_->cancelled.push_back(id);
    return;
  }
  if (CURL* const easy = found->second->easy(); easy != nullptr) {
    state_->library.multi_remove(state_->multi, easy);
    state_->running.erase(easy);
  }
  state_->transfers.erase(found);
}

void HttpClient::StartWaiting() {
  while (!is_full()) {
    const bool is_urgent = !state_->urgent.empty();
    std::deque<Id>& queue = is_urgent ? state_->urgent : state_->waiting;
    if (queue.empty() || (!is_urgent && state_->running.size() >= state_->turns)) return;
    const Id id = queue.front();
    queue.pop_front();
    const auto found = state_->transfers.find(id);
    if (found == state_->transfers.end()) continue;
    CURL* const easy = found->second->Start(state_->config);
    state_->running[easy] = id;
    state_->library.multi_add(state_->multi, easy);
  }
}

bool HttpClient::Perform() {
  StartWaiting();
  int still_running = 0;
  state_->is_performing = true;
  state_->library.multi_perform(state_->multi, &still_running);
  state_->is_performing = false;
  for (const Id id : std::exchange(state_->cancelled, {})) Cancel(id);
  // All of them, before callbacks change what is under way.
  std::vector<std::pair<Id, CURLcode>> ended;
  int left = 0;
  while (const CURLMsg* const message = state_->library.multi_read(state_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    ended.emplace_back(state_->running[message->easy_handle], message->data.result);
  }
  for (const auto& [id, code] : ended) {
    const auto found = state_->transfers.find(id);
    if (found == state_->transfers.end()) continue;  // cancelled by a callback before
    const std::unique_ptr<Transfer> transfer = std::move(found->second);
    state_->transfers.erase(found);
    state_->library.multi_remove(state_->multi, transfer->easy());
    state_->running.erase(transfer->easy());
    if (transfer->was_answered()) ++state_->turns;
    transfer->Finish(code);
  }
  return !ended.empty();
}

bool HttpClient::Poll(absl::Duration timeout, int extra_fd) {
  const bool did_something = Perform();
  StartWaiting();
  curl_waitfd extra{extra_fd, CURL_WAIT_POLLIN, 0};
  state_->library.multi_poll(state_->multi, &extra, extra_fd >= 0 ? 1 : 0,
                             did_something ? 0 : static_cast<int>(Milliseconds(timeout)), nullptr);
  Perform();
  return extra.revents != 0;
}

}  // namespace bulkhead
