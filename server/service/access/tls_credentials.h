#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <type_traits>

#include "server/service/access/tls_files.h"

namespace bulkhead {

// gRPC's base class owns the credentials or leaves that to its subclasses, by its version.
template <typename Base, bool = std::is_abstract_v<Base>>
class OwningServerCredentials : public Base {
 protected:
  explicit OwningServerCredentials(grpc_server_credentials* credentials)
      : credentials_(credentials) {}
  ~OwningServerCredentials() override { grpc_server_credentials_release(credentials_); }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }
  grpc_server_credentials* const credentials_;
};
template <typename Base>
class OwningServerCredentials<Base, false> : public Base {
 protected:
  explicit OwningServerCredentials(grpc_server_credentials* credentials) : Base(credentials) {}
};

// TLS 1.3 with the files as they are when a connection begins; later changes do not affect it. If
// the files have an authority for clients, it must have signed their certificates; without a token
// every client must have a certificate. Without a processor of gRPC's for callers' metadata: gRPC
// 1.51 copies all headers for it, and ends the process at some (`grpclb_client_stats`).
class TlsCredentials final : public OwningServerCredentials<grpc::ServerCredentials> {
 public:
  explicit TlsCredentials(std::shared_ptr<const TlsFiles> files);
  ~TlsCredentials() override = default;

  // Keeps gRPC from older versions of TLS. Call it before any other thread runs.
  static void AllowOnlyTls13();

 private:
  struct Fetcher;
  explicit TlsCredentials(std::shared_ptr<Fetcher> fetcher);

  const std::shared_ptr<Fetcher> fetcher_;
};

}  // namespace bulkhead
