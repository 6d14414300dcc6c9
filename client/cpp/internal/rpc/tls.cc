#include "client/cpp/internal/rpc/tls.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;

// Of each step of a connection that is to explain.
timeval Patience() {
  const char* const text = std::getenv("BULKHEAD_TLS_EXPLAIN_SECONDS");
  int seconds = 0;
  const bool given = text != nullptr && absl::SimpleAtoi(text, &seconds) && seconds > 0;
  return {given ? seconds : 2, 0};
}

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
using Session = std::unique_ptr<SSL, FreeSession>;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// OpenSSL writes to connections that may be closed, for which no program shall end.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

absl::Status Invalid(const std::string& what) {
  return MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kCredentialsInvalid,
                         what);
}

// A field of Credentials and its variable in the environment.
struct Field {
  const char* name;
  const char* variable;
};
constexpr Field kCa{"ca", "BULKHEAD_TLS_CA"};
constexpr Field kCert{"cert", "BULKHEAD_TLS_CERT"};
constexpr Field kKey{"key", "BULKHEAD_TLS_KEY"};
constexpr Field kTokenFile{"token_file", "BULKHEAD_TOKEN_FILE"};

// "ca (BULKHEAD_TLS_CA) /x.pem", or "ca /x.pem" when it does not come from that variable.
std::string Named(const Field& field, const std::string& path) {
  const char* const said = std::getenv(field.variable);
  const bool of_variable = said != nullptr && path == said;
  return absl::StrCat(field.name, of_variable ? absl::StrCat(" (", field.variable, ")") : "", " ",
                      path);
}

absl::Status Unusable(const Field& field, const std::string& path, const std::string& what) {
  return MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kCredentialsInvalid,
                         absl::StrCat(Named(field, path), ": ", what), {{"field", field.name}});
}

absl::StatusOr<std::string> ReadText(const Field& field, const std::string& path) {
  if (path.empty()) return std::string();
  std::error_code error;
  const bool is_there = std::filesystem::exists(path, error);
  if (is_there && !std::filesystem::is_regular_file(path, error)) {
    return Unusable(field, path, "cannot be read: it is no file");
  }
  errno = 0;
  std::ifstream file(path);
  std::string text(kMostFileBytes, '\0');
  file.read(text.data(), kMostFileBytes);
  if (!file.is_open() || file.bad()) {
    return Unusable(field, path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Of OpenSSL's last error, which is forgotten.
std::string LastError() {
  const char* const text = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return text == nullptr ? "" : text;
}

// A context with the files of `credentials`, all of which can be used.
absl::StatusOr<Context> LoadFiles(const Credentials& credentials) {
  Context context(SSL_CTX_new(TLS_client_method()));
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context.get(), credentials.ca.c_str(), nullptr) != 1) {
    return Unusable(kCa, credentials.ca,
                    absl::StrCat("holds no whole certificate of an authority (", LastError(), ")"));
  }
  if (credentials.cert.empty()) return context;
  // Nobody is asked for a passphrase.
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(context.get(), credentials.cert.c_str()) != 1) {
    return Unusable(kCert, credentials.cert,
                    absl::StrCat("holds no whole certificate (", LastError(), ")"));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), credentials.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool fits = ERR_GET_REASON(ERR_peek_last_error()) != X509_R_KEY_VALUES_MISMATCH;
    const std::string why = LastError();
    if (!fits) {
      return Unusable(kKey, credentials.key,
                      absl::StrCat("is not the key of the certificate in ", credentials.cert));
    }
    return Unusable(kKey, credentials.key,
                    absl::StrCat("holds no private key without a passphrase (", why, ")"));
  }
  return context;
}

// "[::1]:7077" → "::1" and "7077"; schemes such as "dns:" are left out.
std::pair<std::string, std::string> DialledAt(std::string target) {
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (target.rfind(scheme, 0) == 0) target = target.substr(std::strlen(scheme));
  }
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = target.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, target.substr(colon + 1)};
}

// A connection, or a negative descriptor.
int Dial(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses) != 0) return -1;
  int connected = -1;
  const timeval patience = Patience();
  for (const addrinfo* one = addresses; one != nullptr && connected < 0; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, one->ai_addr, one->ai_addrlen) == 0) {
      connected = fd;
    } else {
      close(fd);
    }
  }
  freeaddrinfo(addresses);
  return connected;
}

void ExpectHost(SSL* session, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1) return;
  ERR_clear_error();
  SSL_set1_host(session, host.c_str());
  SSL_set_tlsext_host_name(session, host.c_str());
}

std::string WhyRefused(long verified, const std::string& host, const Credentials& credentials) {
  const char* const text = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate has expired; the service needs a new one (--tls-cert)";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate is not valid yet; compare the clocks of both machines";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("its certificate is not for ", host,
                          "; connect by a name that is in it, or give the service one with "
                          "this name");
    case X509_V_ERR_INVALID_PURPOSE:
      return "its certificate is not one of a server by its extended key usage; the service needs "
             "another (--tls-cert)";
    default:
      return absl::StrCat("its certificate is not trusted (", text, "); ",
                          Named(kCa, credentials.ca),
                          " is not the authority that signed it, or the service's --tls-cert lacks "
                          "an intermediate certificate");
  }
}

// "that expired at 2026-01-31 12:00:00 UTC"; empty for a certificate that is valid now.
std::string WhyOutdated(const X509* certificate) {
  const auto date = [](const ASN1_TIME* time) {
    std::tm parts{};
    ASN1_TIME_to_tm(time, &parts);
    return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                            absl::UTCTimeZone());
  };
  const ASN1_TIME* const from = X509_get0_notBefore(certificate);
  const ASN1_TIME* const until = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(until) < 0) return absl::StrCat("that expired at ", date(until));
  if (X509_cmp_current_time(from) > 0) {
    return absl::StrCat("that is not valid before ", date(from));
  }
  return "";
}

// After the handshake, by what the service says first. In TLS 1.3 it judges this client's
// certificate only then, and gRPC hangs up without a word.
std::string WhyHungUp(SSL* session, const Credentials& credentials) {
  char byte = 0;
  const int count = SSL_read(session, &byte, 1);
  const bool silent = SSL_get_error(session, count) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  if (count > 0 || silent) return "";
  if (credentials.cert.empty()) {
    return "it wants a client certificate; give cert and key (BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY)";
  }
  const std::string outdated = WhyOutdated(SSL_get_certificate(session));
  return absl::StrCat(
      "it hangs up on the certificate ", credentials.cert, " of this client; ",
      !outdated.empty()
          ? outdated
          : "the service's --tls-client-ca is not the authority that signed it, or it lacks an "
            "intermediate certificate, or its extended key usage excludes clients");
}

bool SpeaksTls(int fd) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  const Session session(SSL_new(context.get()));
  SSL_set_fd(session.get(), fd);
  const bool speaks = SSL_connect(session.get()) == 1;
  ERR_clear_error();
  return speaks;
}

}  // namespace

Credentials WithEnvironment(Credentials credentials) {
  const auto fill = [](std::string& field, const char* variable) {
    const char* const value = std::getenv(variable);
    if (field.empty() && value != nullptr) field = value;
  };
  fill(credentials.ca, kCa.variable);
  fill(credentials.cert, kCert.variable);
  fill(credentials.key, kKey.variable);
  fill(credentials.token_file, kTokenFile.variable);
  fill(credentials.socket_user, "BULKHEAD_SOCKET_USER");
  return credentials;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TcpCredentials(
    const Credentials& credentials) {
  if (credentials.cert.empty() != credentials.key.empty()) {
    return Invalid(
        "cert and key (BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY) belong together, and one of them is "
        "missing");
  }
  if (credentials.ca.empty() && (!credentials.cert.empty() || !credentials.token_file.empty())) {
    return Invalid(
        "a certificate or a token is sent over TLS only: give the authority of the service's "
        "certificate with ca (BULKHEAD_TLS_CA)");
  }
  if (credentials.ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  for (const auto& [taken, field, path] :
       {std::tuple(&options.pem_root_certs, kCa, &credentials.ca),
        std::tuple(&options.pem_cert_chain, kCert, &credentials.cert),
        std::tuple(&options.pem_private_key, kKey, &credentials.key)}) {
    BULKHEAD_ASSIGN_OR_RETURN(*taken, ReadText(field, *path));
  }
  BULKHEAD_RETURN_IF_ERROR(LoadFiles(credentials).status());
  auto made = grpc::SslCredentials(options);
  if (credentials.token_file.empty()) return made;
  auto token = ReadText(kTokenFile, credentials.token_file);
  if (!token.ok()) return token.status();
  const std::string text(absl::StripAsciiWhitespace(*token));
  if (text.empty()) {
    return Unusable(kTokenFile, credentials.token_file,
                    "is empty; it must hold the token of the service");
  }
  for (const char c : text) {
    if (c > ' ' && c <= '~') continue;
    return Unusable(kTokenFile, credentials.token_file,
                    "holds more than a token, which is one line without spaces");
  }
  return grpc::CompositeChannelCredentials(made, grpc::AccessTokenCredentials(text));
}

std::string ExplainTls(const std::string& target, const Credentials& credentials) {
  const auto [host, port] = DialledAt(target);
  if (host.empty()) return "";
  const WithoutSigpipe quiet;
  const Socket socket(Dial(host, port));
  if (socket.get() < 0) return "";
  if (credentials.ca.empty()) {
    if (!SpeaksTls(socket.get())) return "";
    return "it speaks TLS; give the authority of its certificate with ca (BULKHEAD_TLS_CA), and a "
           "client certificate or a token";
  }
  const auto context = LoadFiles(credentials);
  if (!context.ok()) return "";
  SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  const Session session(SSL_new(context->get()));
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof(kHttp2));
  ExpectHost(session.get(), host);
  SSL_set_fd(session.get(), socket.get());
  ERR_clear_error();
  if (SSL_connect(session.get()) == 1) return WhyHungUp(session.get(), credentials);
  const long verified = SSL_get_verify_result(session.get());
  const std::string why = LastError();
  if (verified != X509_V_OK) return WhyRefused(verified, host, credentials);
  if (why.empty()) return "";
  return absl::StrCat("it speaks no TLS, or none that this client accepts (", why,
                      "); start bulkheadd with --tls-cert, or leave out ca (BULKHEAD_TLS_CA)");
}

}  // namespace bulkhead::client_internal
