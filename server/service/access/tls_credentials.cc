#include "server/service/access/tls_credentials.h"

#include <cstdlib>
#include <utility>

namespace bulkhead {

// Gives gRPC the certificates for each connection, on any of its threads.
struct TlsCredentials::Fetcher {
  explicit Fetcher(std::shared_ptr<const TlsFiles> asked) : files(std::move(asked)) {}

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<Fetcher*>(self)->Give(config);
  }

  grpc_ssl_certificate_config_reload_status Give(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsFiles::Content> now = files->current();
    absl::MutexLock lock(&mutex);
    if (now == given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{now->key.c_str(), now->certificate.c_str()};
    // gRPC insists on an authority, even if it asks no client for a certificate.
    const std::string& authority = now->client_ca.empty() ? now->certificate : now->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    given = std::move(now);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  grpc_ssl_client_certificate_request_type Request() const {
    const TlsFiles::Paths& paths = files->paths();
    if (paths.client_ca.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    return paths.token.empty() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                               : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
  }

  const std::shared_ptr<const TlsFiles> files;
  absl::Mutex mutex;
  std::shared_ptr<const TlsFiles::Content> given ABSL_GUARDED_BY(mutex);
};

TlsCredentials::TlsCredentials(std::shared_ptr<const TlsFiles> files)
    : TlsCredentials(std::make_shared<Fetcher>(std::move(files))) {}

TlsCredentials::TlsCredentials(std::shared_ptr<Fetcher> fetcher)
    : OwningServerCredentials(grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              fetcher->Request(), &Fetcher::Fetch, fetcher.get()))),
      fetcher_(std::move(fetcher)) {}

void TlsCredentials::AllowOnlyTls13() {
  // gRPC 1.51 has no public setting for the version. The list of ciphers applies only to TLS 1.2,
  // and ciphers with shared secrets are never negotiated here, since there are none. So TLS 1.2
  // finds no common cipher; TLS 1.3 has ciphers of its own.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK", /*overwrite=*/1);
}

}  // namespace bulkhead
